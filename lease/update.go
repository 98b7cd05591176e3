package lease

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// itemUpdate builds a conditional UpdateItem of DynamoDB. All names and values are placeholders in its expressions,
// because some names are reserved words.
type itemUpdate struct {
	table     string
	at        itemAddress
	forever   bool // the item does not expire
	condition string
	sets      []string
	removes   []string
	names     map[string]string
	values    map[string]types.AttributeValue
}

// namePlaceholder returns the placeholder of an attribute in the update's expressions.
func (u *itemUpdate) namePlaceholder(attribute string) string {
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

func (u *itemUpdate) valuePlaceholder(v types.AttributeValue) string {
	if u.values == nil {
		u.values = make(map[string]types.AttributeValue)
	}
	placeholder := fmt.Sprintf(":v%d", len(u.values))
	u.values[placeholder] = v
	return placeholder
}

func (u *itemUpdate) numberPlaceholder(n int64) string { return u.valuePlaceholder(numberAttr(n)) }
func (u *itemUpdate) textPlaceholder(s string) string  { return u.valuePlaceholder(textAttr(s)) }

// addCondition adds a condition to the update, joined by AND.
func (u *itemUpdate) addCondition(format string, args ...any) {
	if u.condition != "" {
		u.condition += " AND "
	}
	u.condition += fmt.Sprintf(format, args...)
}

// requireUnchanged adds the condition that an attribute is still the number n. n is 0 for a missing attribute.
func (u *itemUpdate) requireUnchanged(attribute string, n int64) {
	if n == 0 {
		u.addCondition("attribute_not_exists(%s)", u.namePlaceholder(attribute))
	} else {
		u.addCondition("%s = %s", u.namePlaceholder(attribute), u.numberPlaceholder(n))
	}
}

func (u *itemUpdate) addSetClause(format string, args ...any) {
	u.sets = append(u.sets, fmt.Sprintf(format, args...))
}

func (u *itemUpdate) addRemoveClause(name string) { u.removes = append(u.removes, name) }

func (u *itemUpdate) updateExpression() string {
	var clauses []string
	if len(u.sets) > 0 {
		clauses = append(clauses, "SET "+strings.Join(u.sets, ", "))
	}
	if len(u.removes) > 0 {
		clauses = append(clauses, "REMOVE "+strings.Join(u.removes, ", "))
	}
	return strings.Join(clauses, " ")
}
