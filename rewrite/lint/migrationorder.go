package lint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// versionOf matches the version in a migration's file name: 1, 20240102030405, and Flyway's 1.2 or 1_2.
var versionOf = regexp.MustCompile(`^(?:[VU]([0-9]+(?:[._][0-9]+)*)__|([0-9]+))`)

// CompareMigrations orders two paths as migration tools run the files: by version as a number, undo files after the
// others of their version. Files without a version, which Flyway repeats at the end, come last in their folder, by
// name.
func CompareMigrations(a, b string) int {
	dirA, nameA := path.Split(a)
	dirB, nameB := path.Split(b)
	versionA, versionB := migrationVersion(nameA), migrationVersion(nameB)
	return cmp.Or(
		slices.CompareFunc(strings.Split(dirA, "/"), strings.Split(dirB, "/"), compareNatural),
		cmp.Compare(versionRank(versionA), versionRank(versionB)),
		compareVersions(versionA, versionB),
		cmp.Compare(undoRank(nameA), undoRank(nameB)),
		compareNatural(nameA, nameB),
		cmp.Compare(a, b),
	)
}

func migrationVersion(name string) []string {
	m := versionOf.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	return strings.FieldsFunc(m[1]+m[2], func(r rune) bool { return r == '.' || r == '_' })
}

// versionRank is a sort key for a migration: 0 with a version in its name, and 1 (later) without one.
func versionRank(version []string) int {
	if version == nil {
		return 1
	}
	return 0
}

// undoRank is a sort key for a file: 1 (later) if the file undoes a migration, otherwise 0.
func undoRank(name string) int {
	if strings.HasSuffix(name, ".down.sql") || strings.HasPrefix(name, "U") && flywayName.MatchString(name) {
		return 1
	}
	return 0
}

// compareVersions compares two versions, which are lists of numbers. A number that one list lacks counts as 0.
func compareVersions(a, b []string) int {
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := compareNumbers(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// compareNumbers compares two texts of digits as numbers.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// compareNatural compares two texts. It compares the numbers in them as numbers, so that a2 comes before a10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		digitsA, digitsB := leadingDigits(a), leadingDigits(b)
		if digitsA > 0 && digitsB > 0 {
			if c := compareNumbers(a[:digitsA], b[:digitsB]); c != 0 {
				return c
			}
			a, b = a[digitsA:], b[digitsB:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// leadingDigits returns the number of digits at the start of a text.
func leadingDigits(text string) int {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}
