package lease

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// update builds a conditional UpdateItem of DynamoDB. All names and values are placeholders in its expressions, because
// some names are reserved words.
type update struct {
	table     string
	at        address
	forever   bool // the item does not expire
	condition string
	sets      []string
	removes   []string
	names     map[string]string
	values    map[string]types.AttributeValue
}

// name returns the placeholder of an attribute in the update's expressions.
func (u *update) name(attribute string) string {
	for placeholder, name := range u.names {
		if name == attribute {
			return placeholder
		}
	}
	if u.names == nil {
		u.names = make(map[string]string)
	}
	placeholder := fmt.Sprintf("#n%d", len(u.names))
	u.names[placeholder] = attribute
	return placeholder
}

func (u *update) value(v types.AttributeValue) string {
	if u.values == nil {
		u.values = make(map[string]types.AttributeValue)
	}
	placeholder := fmt.Sprintf(":v%d", len(u.values))
	u.values[placeholder] = v
	return placeholder
}

func (u *update) number(n int64) string { return u.value(number(n)) }
func (u *update) text(s string) string  { return u.value(text(s)) }

// require adds a condition to the update, joined by AND.
func (u *update) require(format string, args ...any) {
	if u.condition != "" {
		u.condition += " AND "
	}
	u.condition += fmt.Sprintf(format, args...)
}

// demand adds the condition that an attribute is still the number n. n is 0 for a missing attribute.
func (u *update) demand(attribute string, n int64) {
	if n == 0 {
		u.require("attribute_not_exists(%s)", u.name(attribute))
	} else {
		u.require("%s = %s", u.name(attribute), u.number(n))
	}
}

func (u *update) set(format string, args ...any) {
	u.sets = append(u.sets, fmt.Sprintf(format, args...))
}

func (u *update) remove(name string) { u.removes = append(u.removes, name) }

func (u *update) expression() string {
	var clauses []string
	if len(u.sets) > 0 {
		clauses = append(clauses, "SET "+strings.Join(u.sets, ", "))
	}
	if len(u.removes) > 0 {
		clauses = append(clauses, "REMOVE "+strings.Join(u.removes, ", "))
	}
	return strings.Join(clauses, " ")
}
