package config

import "strings"

// suggestName returns the candidate that a misspelled name most likely means, or "". The last part of a dotted name is
// sufficient: "endpoint" means "backend.endpoint".
func suggestName(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/5)+1
	for _, candidate := range candidates {
		if d := editDistance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best != "" {
		return best
	}
	for _, candidate := range candidates {
		for _, sep := range []string{".", "_"} {
			tail := strings.TrimPrefix(name, EnvPrefix)
			if strings.HasSuffix(candidate, sep+tail) {
				return candidate
			}
		}
	}
	return ""
}

// DidYouMean returns the end of a message about an unknown name: the most similar candidate, if any.
func DidYouMean(name string, candidates []string) string {
	if best := suggestName(name, candidates); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// editDistance returns the Levenshtein distance of two texts in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
