package constraint

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a job, its index and the rows say decides what the client gets, and whether the index is dropped.
func TestIndexJob(t *testing.T) {
	shown := answer{words: "pg_get_indexdef", rows: [][]string{{"public", "i", "public", "t", "t", "f", "", "a", "f"}}}
	invalid := answer{words: "SELECT indisvalid", rows: [][]string{{"f"}}}
	job := func(status, details, oid, valid string, times int) answer {
		return answer{words: "j.status", rows: [][]string{{status, details, oid, valid}}, times: times}
	}
	gone := answer{words: "j.status"}
	duplicate := answer{words: "HAVING", rows: [][]string{{"7", "f"}}}
	denied, shut := &wire.Error{Code: "42501", Message: "permission denied"}, &wire.Error{Code: "XX000", Message: "server unavailable"}
	for _, c := range []struct {
		name, want, drops string
		warns             bool
		pauses            int
		script            []answer
	}{
		{"valid", "", "", false, 0, []answer{job("completed", "", "9", "t", 0)}},
		{"valid while the job still runs", "", "", false, 0, []answer{job("processing", "", "9", "t", 0)}},
		{"valid later", "", "", false, 2, []answer{job("submitted", "", "9", "f", 1), job("completed", "", "9", "f", 1), job("completed", "", "9", "t", 0)}},
		{"forgotten, and valid", "", "", false, 1, []answer{job("submitted", "", "9", "f", 1), gone, {words: "SELECT indisvalid", rows: [][]string{{"t"}}}}},
		{"never seen", "", "", true, 0, []answer{gone}},
		{"nobody may look", "", "", true, 0, []answer{{words: "j.status", err: denied}}},
		{"duplicates", "23505", "DROP INDEX \"public\".\"i\"", false, 0, []answer{job("completed", "unique violation", "9", "f", 0), shown, duplicate}},
		{"it says nothing, and is not valid", "23505", "DROP INDEX", false, 20, []answer{job("succeeded", "", "9", "f", 0), shown, duplicate}},
		{"forgotten, and not valid", "23505", "DROP INDEX", false, 20, []answer{job("submitted", "", "9", "f", 1), gone, invalid, shown, duplicate}},
		{"for a reason that rows do not show", "58000", "DROP INDEX", false, 0, []answer{job("failed", "", "9", "f", 0), shown}},
		{"an expression that fails", "22012", "DROP INDEX", false, 0, []answer{job("failed", "", "9", "f", 0), shown, {words: "HAVING", err: &wire.Error{Code: "22012"}}}},
		{"its job is asked for in vain", "", "", true, 20, []answer{{words: "j.status", err: shut}}},
		{"its job is asked for in vain, when it was seen at work", "", "", true, 20, []answer{job("processing", "", "9", "f", 1), {words: "j.status", err: shut}, invalid, shown, duplicate}},
		{"nobody may look any more, and it was at work", "", "", true, 1, []answer{job("processing", "", "9", "f", 1), {words: "j.status", err: denied}, invalid, shown, duplicate}},
		{"refused once", "", "", false, 1, []answer{{words: "j.status", err: shut, times: 1}, job("completed", "", "9", "t", 0)}},
		{"its job is hidden at times while it works", "", "", false, 60, slices.Concat(slices.Repeat([]answer{job("processing", "", "9", "f", 1), {words: "j.status", times: 15}}, 4),
			[]answer{job("completed", "", "9", "t", 0), invalid})},
		{"gone at the first look", "42704", "", false, 0, []answer{job("failed", "", "", "", 0), {words: "indexrelid = ", err: &wire.Error{Code: "42601"}}}},
		{"gone at the first look, says a job that has ended well", "42704", "", false, 20, []answer{job("completed", "", "", "", 0), {words: "indexrelid = ", err: &wire.Error{Code: "42601"}}}},
		{"others have dropped it", "42704", "", false, 0, []answer{job("failed", "", "9", "f", 0)}},
		{"it cannot be dropped", "23505", "DROP INDEX", false, 0, []answer{job("failed", "", "9", "f", 0), shown, duplicate, {words: "DROP INDEX", err: denied}}},
		{"valid by the time it is looked at", "", "", false, 0, []answer{job("failed", "", "9", "f", 0), {words: "pg_get_indexdef", rows: [][]string{{"public", "i", "public", "t", "t", "f", "", "a", "t"}}}}},
	} {
		server := &scripted{script: c.script}
		j := NewIndexJob(server, "job", nil)
		err := j.Await()
		told := server.RefusalFrom(err)
		if (told == nil) != (c.want == "") || told != nil && told.Code != c.want || server.has("DROP INDEX") != (c.drops != "") || c.drops != "" && !server.has(c.drops) {
			t.Errorf("%s: %v, asked %q", c.name, err, server.asked)
		}
		if c.name == "it cannot be dropped" && !strings.Contains(told.Hint, "DROP INDEX") {
			t.Errorf("%s: hint %q", c.name, told.Hint)
		}
		if (len(j.Notices) > 0) != c.warns || server.paused < c.pauses || c.pauses == 0 && server.paused > 0 {
			t.Errorf("%s: %d notices, %d pauses", c.name, len(j.Notices), server.paused)
		}
	}
}

// An index that IF NOT EXISTS finds must be valid, or become so.
func TestIndexJobOfIfNotExists(t *testing.T) {
	named := &rewrite.IndexName{Name: "i", Table: "t"}
	there := func(valid string) answer { return answer{words: "to_regclass", rows: [][]string{{"9", valid}}} }
	for _, c := range []struct {
		name, want string
		named      *rewrite.IndexName
		script     []answer
	}{
		{"no IF NOT EXISTS", "", nil, nil},
		{"another relation", "", named, nil},
		{"valid", "", named, []answer{there("t")}},
		{"not valid", "55000", named, []answer{there("f")}},
		{"not valid, and its job has failed", "55000", named, []answer{there("f"), {words: "object_id =", rows: [][]string{{"job", "failed"}}}}},
		{"not valid, and nobody may look for its job", "55000 permission denied", named, []answer{there("f"), {words: "object_id =", err: &wire.Error{Code: "42501", Message: "permission denied"}}}},
		{"not valid, and its job is asked for in vain", "55000 server unavailable", named, []answer{there("f"), {words: "object_id =", err: &wire.Error{Code: "XX000", Message: "server unavailable"}}}},
		{"its job ends between the looks", "", named, []answer{{words: "to_regclass", rows: [][]string{{"9", "f"}}, times: 1}, there("t")}},
		{"its job ends between the looks, and the catalog is late", "", named, []answer{{words: "to_regclass", rows: [][]string{{"9", "f"}}, times: 5}, there("t"),
			{words: "object_id =", rows: [][]string{{"job", "succeeded"}}}}},
		{"dropped between the looks", "42704", named, []answer{{words: "to_regclass", rows: [][]string{{"9", "f"}}, times: 1}, {words: "to_regclass"}}},
		{"refused once", "", named, []answer{there("f"), {words: "object_id =", err: &wire.Error{Code: "53200"}, times: 1}, {words: "object_id =", rows: [][]string{{"job", "processing"}}},
			{words: "j.status", rows: [][]string{{"completed", "", "9", "t"}}}}},
		{"being built", "", named, []answer{there("f"), {words: "object_id =", rows: [][]string{{"job", "processing"}}}, {words: "j.status", rows: [][]string{{"completed", "", "9", "t"}}}}},
	} {
		server := &scripted{script: c.script}
		err := NewIndexJob(server, "", c.named).Await()
		want, detail, _ := strings.Cut(c.want, " ")
		if told := server.RefusalFrom(err); (told == nil) != (want == "") || told != nil && (told.Code != want || !strings.Contains(told.Detail, detail)) || server.has("DROP") {
			t.Errorf("%s: %v, asked %q", c.name, err, server.asked)
		}
	}
	for _, words := range []string{"to_regclass", "object_id"} {
		server := &scripted{script: []answer{{words: words, err: errLost}, there("f")}}
		if err := NewIndexJob(server, "", named).Await(); err != errLost {
			t.Errorf("lost at %s: %v", words, err)
		}
	}
	server := &scripted{script: []answer{{words: "j.status", rows: [][]string{{"submitted", "", "9", "f"}}}}, stop: errCancel}
	if err := NewIndexJob(server, "job", nil).Await(); err != errCancel || server.has("DROP") {
		t.Errorf("cancelled: %v, asked %q", err, server.asked)
	}
}
