package inject

import (
	"errors"
	"math/big"
	"strings"
)

// quantitySuffixes lists the suffixes of Kubernetes' quantities, the longer ones first.
var quantitySuffixes = []struct {
	end  string
	size *big.Rat
}{
	{"Ki", power(2, 10)}, {"Mi", power(2, 20)}, {"Gi", power(2, 30)}, {"Ti", power(2, 40)},
	{"m", big.NewRat(1, 1000)}, {"k", power(10, 3)}, {"M", power(10, 6)}, {"G", power(10, 9)}, {"T", power(10, 12)}, {"", power(1, 1)},
}

func power(base, n int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(n), nil))
}

// maxQuantity bounds the text of a quantity, so that 1e999999 is refused without a calculation.
const maxQuantity = 20

var errQuantity = errors.New("want a quantity such as 512Mi, 1G or 100m")

// parseQuantity parses a quantity in Kubernetes' notation, for example 64Mi. The quantity must be above 0.
func parseQuantity(text string) (*big.Rat, error) {
	if text == "" || len(text) > maxQuantity || strings.Trim(text, "0123456789.KMGTikm") != "" {
		return nil, errQuantity
	}
	for _, unit := range quantitySuffixes {
		number, ok := strings.CutSuffix(text, unit.end)
		if !ok {
			continue
		}
		if strings.Trim(number, "0123456789.") != "" {
			return nil, errQuantity
		}
		n, ok := new(big.Rat).SetString(number)
		if !ok || n.Sign() <= 0 {
			return nil, errQuantity
		}
		return n.Mul(n, unit.size), nil
	}
	return nil, errQuantity
}

// percentInBytes returns a percentage of a quantity of memory as a number of bytes.
func percentInBytes(q *big.Rat, percent int64) string {
	part := new(big.Rat).Mul(q, big.NewRat(percent, 100))
	return new(big.Int).Quo(part.Num(), part.Denom()).String()
}
