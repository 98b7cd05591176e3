package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// cloud keeps items as DynamoDB does, in memory: Table runs on it unchanged. It knows
// the expressions that Table writes, and panics at others.
type cloud struct {
	mu    sync.Mutex
	items map[string]itemAttrs
}

func newCloud() *cloud { return &cloud{items: map[string]itemAttrs{}} }

var errOperand = errors.New("ValidationException: an operand has an incorrect data type")

func spot(table string, key map[string]types.AttributeValue) string {
	return table + " " + itemAttrs(key).text(attrCluster) + " " + itemAttrs(key).text(attrItem)
}

func (c *cloud) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &dynamodb.GetItemOutput{Item: maps.Clone(c.items[spot(*in.TableName, in.Key)])}, nil
}

func (c *cloud) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := spot(*in.TableName, in.Item)
	e := expression{in.ExpressionAttributeNames, in.ExpressionAttributeValues, c.items[at], lex(*in.ConditionExpression)}
	if !e.or() {
		return nil, &types.ConditionalCheckFailedException{}
	}
	c.items[at] = maps.Clone(in.Item)
	return &dynamodb.PutItemOutput{}, nil
}

func (c *cloud) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := spot(*in.TableName, in.Key)
	before := c.items[at]
	e := expression{in.ExpressionAttributeNames, in.ExpressionAttributeValues, before, lex(*in.ConditionExpression)}
	if !e.or() {
		return nil, &types.ConditionalCheckFailedException{Item: maps.Clone(before)}
	}
	after := maps.Clone(before)
	if after == nil {
		after = maps.Clone(itemAttrs(in.Key))
	}
	e.tokens = lex(*in.UpdateExpression)
	if err := e.update(after); err != nil {
		return nil, err
	}
	c.items[at] = after
	return &dynamodb.UpdateItemOutput{Attributes: maps.Clone(after)}, nil
}

// expression is one of DynamoDB's on the way through a parser that evaluates it.
type expression struct {
	names  map[string]string
	values map[string]types.AttributeValue
	item   itemAttrs
	tokens []string
}

func lex(s string) []string {
	for _, mark := range []string{"(", ")", ",", "+", "-", "<", "="} {
		s = strings.ReplaceAll(s, mark, " "+mark+" ")
	}
	return strings.Fields(strings.ReplaceAll(s, "> = ", ">= "))
}

func (e *expression) peek() string {
	if len(e.tokens) == 0 {
		return ""
	}
	return e.tokens[0]
}

func (e *expression) take(want ...string) string {
	token := e.peek()
	if len(want) > 0 && token != want[0] {
		panic(fmt.Sprintf("cloud: %q where %q was expected", e.tokens, want[0]))
	}
	e.tokens = e.tokens[1:]
	return token
}

func (e *expression) or() bool {
	ok := e.and()
	for e.peek() == "OR" {
		e.take()
		second := e.and()
		ok = ok || second
	}
	return ok
}

func (e *expression) and() bool {
	ok := e.condition()
	for e.peek() == "AND" {
		e.take()
		second := e.condition()
		ok = ok && second
	}
	return ok
}

func (e *expression) condition() (ok bool) {
	switch e.peek() {
	case "(":
		e.take()
		ok = e.or()
		e.take(")")
		return ok
	case "attribute_not_exists", "attribute_exists":
		function := e.take()
		e.take("(")
		there := e.operand() != nil
		e.take(")")
		return there == (function == "attribute_exists")
	}
	left := e.operand()
	switch operator := e.take(); operator {
	case "BETWEEN":
		low := e.operand()
		e.take("AND")
		high := e.operand()
		return compare(left, low, ">=") && compare(left, high, "<=")
	default:
		return compare(left, e.operand(), operator)
	}
}

// compare is false for operands of different types, as in DynamoDB.
func compare(left, right types.AttributeValue, operator string) bool {
	if a, ok := left.(*types.AttributeValueMemberS); ok {
		b, ok := right.(*types.AttributeValueMemberS)
		return ok && operator == "=" && a.Value == b.Value
	}
	a, okA := integer(left)
	b, okB := integer(right)
	if !okA || !okB {
		return false
	}
	switch operator {
	case "=":
		return a == b
	case ">=":
		return a >= b
	case "<=":
		return a <= b
	case "<":
		return a < b
	}
	panic("cloud: operator " + operator)
}

func integer(v types.AttributeValue) (int64, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	return i, err == nil
}

// operand is a value, an attribute as it was before, or one with a substitute.
func (e *expression) operand() types.AttributeValue {
	token := e.take()
	switch {
	case token == "if_not_exists":
		e.take("(")
		there := e.operand()
		e.take(",")
		other := e.operand()
		e.take(")")
		if there == nil {
			return other
		}
		return there
	case token[0] == ':':
		return e.values[token]
	case token[0] == '#':
		return e.item[e.names[token]]
	}
	panic("cloud: operand " + token)
}

func (e *expression) update(after itemAttrs) error {
	for clause := e.take(); ; clause = e.take() {
		for more := true; more; {
			name := e.names[e.take()]
			if clause == "REMOVE" {
				delete(after, name)
			} else {
				e.take("=")
				value := e.operand()
				if operator := e.peek(); operator == "+" || operator == "-" {
					e.take()
					a, okA := integer(value)
					b, okB := integer(e.operand())
					if !okA || !okB {
						return errOperand
					}
					if operator == "-" {
						b = -b
					}
					value = numberAttr(a + b)
				}
				after[name] = value
			}
			if more = e.peek() == ","; more {
				e.take()
			}
		}
		if e.peek() == "" {
			return nil
		}
	}
}
