package answer

import (
	"bytes"

	"github.com/sluice-proxy/sluice/retry"
)

// These hints explain errors about limits of DSQL, because the server's error names at most the limit. Applications
// often have limits of their own, which were chosen for a database that allows more.

// limitHints maps a part of an error message to the hint about the exceeded limit.
var limitHints = []struct{ message, hint string }{
	{"transaction row limit exceeded", "A transaction of Aurora DSQL changes at most 3,000 rows" + ownLimitAdvice},
	{"transaction size limit", "A transaction of Aurora DSQL changes at most 10 MiB" + ownLimitAdvice},
	{"transaction age limit", "A transaction of Aurora DSQL lasts at most 5 minutes" + ownLimitAdvice},
	{"datatype limit greater than", "A value has at most 1 MiB in Aurora DSQL, compressed where the server compresses it" + ownLimitAdvice},
	{"maximum column size exceeded", "A value has at most 1 MiB in Aurora DSQL, compressed where the server compresses it" + ownLimitAdvice},
	{"maximum row size exceeded", "A row has at most 2 MiB in Aurora DSQL" + ownLimitAdvice},
	{"key size too large", "The columns of a key have at most about 2,000 bytes together in Aurora DSQL, and each byte of a mapped bytea column (rewrite.bytea) takes two" + ownLimitAdvice},
}

const ownLimitAdvice = ". If the application has a limit of its own for this, set it below."

// LimitHint returns the hint for an error about an exceeded limit of DSQL, or "" for another error. payload is the
// payload of the ErrorResponse.
func LimitHint(payload []byte) string {
	if string(retry.ErrorField(payload, 'C')) != "54000" {
		return ""
	}
	message := bytes.ToLower(retry.ErrorField(payload, 'M'))
	for _, limit := range limitHints {
		if bytes.Contains(message, []byte(limit.message)) {
			return limit.hint
		}
	}
	return ""
}
