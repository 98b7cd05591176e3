package charts

import (
	"fmt"
	"strings"
	"testing"
)

// GOMEMLIMIT is four fifths of the container's memory limit, however that is written, or what the
// values say; a container without a limit has none.
func TestMemoryLimit(t *testing.T) {
	for _, test := range []struct{ resources, memoryLimit, want string }{
		{"{limits: {memory: 512Mi}}", "", "429496729"},
		{"{limits: {memory: 1Gi}}", "", "858993459"},
		{"{limits: {memory: 1.5Gi}}", "", "1288490188"},
		{"{limits: {memory: 256000Ki}}", "", "209715200"},
		{"{limits: {memory: 300M}}", "", "240000000"},
		{"{limits: {memory: 536870912}}", "", "429496729"},
		{`{limits: {memory: "536870912"}}`, "", "429496729"},
		{"{limits: {memory: 512Mi}}", "300MiB", "300MiB"},
		{"{limits: {memory: 1e9}}", "300MiB", "300MiB"},
		{"{limits: null}", "300MiB", "300MiB"},
		{"{limits: null}", "", ""},
		{"{limits: {memory: null}}", "", ""},
	} {
		values := fmt.Sprintf(`config: {backend.endpoint: db.example}
standalone: {enabled: true, usersSecret: users, resources: %s, memoryLimit: %q}
injector: {enabled: true, resources: %[1]s, memoryLimit: %[2]q}
`, test.resources, test.memoryLimit)
		text := mustRender(t, release{}, values).text
		line := fmt.Sprintf("{name: GOMEMLIMIT, value: %q}", test.want)
		if got := strings.Count(text, "GOMEMLIMIT"); test.want == "" && got != 0 {
			t.Errorf("%s: GOMEMLIMIT without a limit", test.resources)
		}
		if got := strings.Count(text, line); test.want != "" && got != 2 {
			t.Errorf("%s, %q: %d of two containers have %s:\n%s", test.resources, test.memoryLimit, got, line, text)
		}
	}
}
