package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decodeTree decodes JSON with its numbers as they are written.
func decodeTree(t fataler, raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return tree
}

type fataler interface{ Fatalf(string, ...any) }

func encode(t fataler, tree any) json.RawMessage {
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return raw
}

// applyPatch carries out a JSONPatch as RFC 6902 says, on a decoded document. It shares
// nothing with the package's own.
func applyPatch(tree any, patch []byte) (any, error) {
	var steps []struct {
		Op, Path string
		Value    any
	}
	d := json.NewDecoder(bytes.NewReader(patch))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&steps); err != nil {
		return nil, err
	}
	for _, step := range steps {
		if step.Op != "add" {
			return nil, fmt.Errorf("%q: only add is expected", step.Op)
		}
		if step.Path == "" || step.Path[0] != '/' {
			return nil, fmt.Errorf("%q is no path below the whole", step.Path)
		}
		names := strings.Split(step.Path[1:], "/")
		for i := range names {
			names[i] = strings.ReplaceAll(strings.ReplaceAll(names[i], "~1", "/"), "~0", "~")
		}
		var err error
		if tree, err = addAt(tree, names, step.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", step.Path, err)
		}
	}
	return tree, nil
}

func addAt(at any, names []string, value any) (any, error) {
	name, last := names[0], len(names) == 1
	switch at := at.(type) {
	case map[string]any:
		below, there := at[name]
		if !last {
			if !there {
				return nil, fmt.Errorf("no member %q", name)
			}
			var err error
			if value, err = addAt(below, names[1:], value); err != nil {
				return nil, err
			}
		}
		at[name] = value
		return at, nil
	case []any:
		if last && name == "-" {
			return append(at, value), nil
		}
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i > len(at) || !last && i == len(at) || strconv.Itoa(i) != name {
			return nil, fmt.Errorf("no element %q", name)
		}
		if last {
			return slices.Insert(at, i, value), nil
		}
		at[i], err = addAt(at[i], names[1:], value)
		return at, err
	}
	return nil, fmt.Errorf("%T has no %q", at, name)
}

// numbers that no float64 keeps, besides ordinary ones.
var numbers = []json.Number{"0", "-0", "1", "5432", "9432", "5432.0", "65532", "1e400", "0.10", "12345678901234567890123", "1E-9", "9007199254740993"}

var words = []string{"", "a", "sluice", "Always", "Never", "TCP", "UDP", "windows", "linux", "true", "false", "injected", "sluice-token", "<&>", "\u2028", "é", "$(A)", "a/b~c",
	"sluice.dev/inject", "sluice.dev/status", "sluice.dev/pins.max", "sluice.dev/listen.address", "sluice.dev/role-arn", "127.0.0.1:9432", "arn:aws:iam::1:role/x"}

func anyJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.SampledFrom(numbers), func(n json.Number) any { return n }),
		rapid.Map(rapid.SampledFrom(words), func(s string) any { return s }),
		rapid.Map(rapid.String(), func(s string) any { return strings.ToValidUTF8(s, "?") }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(anyJSON(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom(words), anyJSON(depth-1), 0, 3), func(m map[string]any) any { return m }),
	)
}

// mostly draws from g, and now and then anything at all.
func mostly[T any](t *rapid.T, g *rapid.Generator[T], label string) any {
	switch rapid.IntRange(0, 39).Draw(t, label+"?") {
	case 0:
		return anyJSON(2).Draw(t, label)
	case 1:
		return nil
	}
	return g.Draw(t, label)
}

// object makes an object of fields, each of them there or not, and of unknown ones.
func object(t *rapid.T, label string, fields map[string]func(string) any) map[string]any {
	all := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if rapid.IntRange(0, 2).Draw(t, label+name) > 0 {
			all[name] = fields[name](label + name)
		}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, label+"unknown") {
		all[fmt.Sprintf("x-unknown%d", i)] = anyJSON(2).Draw(t, label)
	}
	return all
}

func list(t *rapid.T, label string, most int, element func(string) any) []any {
	all := []any{}
	for i := range rapid.IntRange(0, most).Draw(t, label+"#") {
		all = append(all, element(fmt.Sprintf("%s[%d]", label, i)))
	}
	return all
}

// drawPod makes a pod, which mostly looks like one.
func drawPod(t *rapid.T) map[string]any {
	name := func(names ...string) func(string) any {
		return func(l string) any { return mostly(t, rapid.SampledFrom(names), l) }
	}
	port := func(l string) any {
		return object(t, l, map[string]func(string) any{
			"containerPort": func(l string) any { return mostly(t, rapid.SampledFrom(numbers), l) },
			"protocol":      name("TCP", "UDP"),
		})
	}
	container := func(names ...string) func(string) any {
		return func(l string) any {
			return object(t, l, map[string]func(string) any{
				"name": name(names...), "restartPolicy": name("Always", "Never"),
				"ports": func(l string) any { return list(t, l, 1, port) },
			})
		}
	}
	annotation := map[string]func(string) any{
		"a": name("b"), Prefix + Status: name("injected", "skipped: x", ""), Prefix + "pins.max": name("7", "7", "7", "x"),
		Prefix + "listen.address": name("127.0.0.1:6432", "127.0.0.1:5432", ":6432", "x"), Prefix + "admin.address": name(":9433", ":9433", "localhost:9432"),
		Prefix + RoleARN: name("arn:aws:iam::1:role/x"), Prefix + TokenAudience: name("me", "me", ""), Prefix + MemoryLimit: name("1Gi", "100M"),
		Prefix + MemoryRequest: name("64Mi"), Prefix + PodIdentity: name("false", "false", "true"), Prefix + "backend.user": name("a", "$(A)"),
		Prefix + "distributed.conn_lease_enabled": name("true", "1", "false", "x"),
	}
	flat := func(most map[string]func(string) any) func(string) any {
		return func(l string) any {
			all := map[string]any{}
			for _, key := range slices.Sorted(maps.Keys(most)) {
				if rapid.IntRange(0, 3).Draw(t, l+key) == 0 {
					all[key] = most[key](l + key)
				}
			}
			return all
		}
	}
	pod := object(t, "pod", map[string]func(string) any{
		"metadata": func(l string) any {
			return object(t, l, map[string]func(string) any{
				"labels":      flat(map[string]func(string) any{"app": name("a"), Prefix + InjectLabel: name("true", "true", "true", "false", "x")}),
				"annotations": flat(annotation),
			})
		},
	})
	pod["spec"] = object(t, "spec", map[string]func(string) any{
		"containers":          func(l string) any { return list(t, l, 2, container("a", "b", "b", "sluice")) },
		"initContainers":      func(l string) any { return list(t, l, 2, container("c", "d", "d", "sluice")) },
		"ephemeralContainers": func(l string) any { return list(t, l, 1, container("e", "e", "sluice")) },
		"volumes": func(l string) any {
			return list(t, l, 2, func(l string) any {
				return object(t, l, map[string]func(string) any{"name": name("v", "w", "w", "sluice-token", "sluice-lease")})
			})
		},
		"hostNetwork": func(l string) any { return rapid.IntRange(0, 7).Draw(t, l) == 0 },
		"os": func(l string) any {
			return object(t, l, map[string]func(string) any{"name": name("linux", "linux", "linux", "windows")})
		},
	})
	return pod
}

// Any pod in: a patch that applies, nothing lost, no number rounded, and nothing to do a
// second time.
func TestAnyPod(t *testing.T) {
	t.Parallel()
	in := newTest(t)
	seen := map[Outcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		before := encode(t, drawPod(t))
		v := in.JudgePod(before)
		seen[v.Outcome]++
		if (v.Reason != "") != (v.Outcome == Refused || v.Outcome == Skipped) || len(v.Patch) > 0 && v.Outcome == Refused || len(v.Patch) == 0 && v.Outcome == Injected {
			t.Fatalf("%s is %+v", before, v)
		}
		after, err := applyPatch(decodeTree(t, before), encode(t, append([]PatchOperation{}, v.Patch...)))
		if err != nil {
			t.Fatalf("%s: %v", before, err)
		}
		if text, err := ApplyPatch(before, v.Patch); err != nil || !reflect.DeepEqual(decodeTree(t, text), after) {
			t.Fatalf("%s: carried out on the text: %s, %v; want %s", before, text, err, encode(t, after))
		}
		if v.Outcome == Injected {
			checkSidecar(t, after)
		}
		second := in.JudgePod(encode(t, after))
		if len(second.Patch) > 0 || v.Outcome == Injected && second.Outcome != Present || v.Outcome != Injected && second.Outcome != v.Outcome {
			t.Fatalf("%s: %+v, then %+v", before, v, second)
		}
		for _, o := range v.Patch {
			if old := valueAt(decodeTree(t, before), o.PathNames()); old != nil && o.Path != "/metadata/annotations/sluice.dev~1status" {
				t.Fatalf("%s: %s replaces %v", before, o.Path, old)
			}
		}
		if without := withoutPatch(after, decodeTree(t, before), v.Patch); !reflect.DeepEqual(without, decodeTree(t, before)) {
			t.Fatalf("%s: something else has changed: %s", before, encode(t, without))
		}
	})
	t.Logf("%v", seen)
	for _, o := range []Outcome{Injected, Skipped, Refused} {
		if seen[o] == 0 {
			t.Errorf("no pod was %s", o)
		}
	}
}

// checkSidecar holds an injected pod to what a native sidecar is.
func checkSidecar(t *rapid.T, pod any) {
	spec := pod.(map[string]any)["spec"].(map[string]any)
	c := spec["initContainers"].([]any)[0].(map[string]any)
	if c["name"] != Container || c["restartPolicy"] != "Always" || c["startupProbe"] == nil || c["securityContext"] == nil {
		t.Fatalf("the first init container is %v", c)
	}
	ours := map[string]bool{}
	for _, p := range c["ports"].([]any) {
		ours[fmt.Sprint(p.(map[string]any)["containerPort"])] = true
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		others, _ := spec[list].([]any)
		for i, one := range others {
			other, _ := one.(map[string]any)
			if list == "initContainers" && i == 0 {
				continue
			}
			if other["name"] == Container {
				t.Fatalf("the name is there twice: %v", spec)
			}
			ports, _ := other["ports"].([]any)
			for _, declared := range ports {
				p, _ := declared.(map[string]any)
				if ours[fmt.Sprint(p["containerPort"])] && (p["protocol"] == nil || p["protocol"] == "TCP") {
					t.Fatalf("port %v is taken twice: %v", p, spec)
				}
			}
		}
	}
	mounts, _ := c["volumeMounts"].([]any)
	volumes, _ := spec["volumes"].([]any)
	env := encode(t, c["env"])
	if leased, file := bytes.Contains(env, []byte("CONN_LEASE_ENABLED")) && !bytes.Contains(env, []byte(`_LEASE_ENABLED","value":"false"`)),
		bytes.Contains(env, []byte(`_LEASE_FILE","value":"/var/run/sluice/lease"`)); leased != file || leased != bytes.Contains(encode(t, mounts), []byte("/var/run/sluice")) {
		t.Fatalf("it shares the limit: %v, has a file: %v: %v", leased, file, c)
	}
	for _, m := range mounts {
		if !slices.ContainsFunc(volumes, func(v any) bool {
			volume, _ := v.(map[string]any)
			return volume["name"] == m.(map[string]any)["name"]
		}) {
			t.Fatalf("no volume for %v", m)
		}
	}
}

// valueAt is the member of an object at a path, which an addition there would replace.
func valueAt(at any, names []string) any {
	for i, name := range names {
		switch below := at.(type) {
		case map[string]any:
			at = below[name]
		case []any:
			if i == len(names)-1 {
				return nil // an element moves
			}
			n, _ := strconv.Atoi(name)
			at = below[n]
		default:
			return nil
		}
	}
	return at
}

// withoutPatch takes out of a patched document what its patch has added.
func withoutPatch(after, before any, patch []PatchOperation) any {
	for _, o := range slices.Backward(patch) {
		after = restore(after, before, o.PathNames())
	}
	return after
}

// restore undoes the addition at a path, with what was there before.
func restore(after, before any, names []string) any {
	switch a := after.(type) {
	case map[string]any:
		b, _ := before.(map[string]any)
		old, there := b[names[0]]
		switch {
		case len(names) > 1:
			a[names[0]] = restore(a[names[0]], old, names[1:])
		case there:
			a[names[0]] = old
		default:
			delete(a, names[0])
		}
	case []any:
		if names[0] == "-" {
			return a[:len(a)-1]
		}
		i, _ := strconv.Atoi(names[0])
		if len(names) == 1 {
			return slices.Delete(a, i, i+1)
		}
		a[i] = restore(a[i], before.([]any)[i], names[1:])
	}
	return after
}

// Untrusted bytes: no panic, and whatever is answered is an answer to that request whose
// patch applies.
func FuzzReview(f *testing.F) {
	for _, body := range reviews(f) {
		f.Add(body)
	}
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","resource":{"resource":"pods"},"operation":"CREATE","object":{"spec":{"initContainers":[null]}}}}`))
	in := newTest(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		text, r, err := in.Review(body)
		if err != nil {
			return
		}
		var a answer
		if err := json.Unmarshal(text, &a); err != nil || a.Response.UID == "" || a.Response.Allowed == (r.Outcome == Refused) {
			t.Fatalf("%s: %v", text, err)
		}
		if a.Response.Patch == nil {
			return
		}
		if _, err := applyPatch(decodeTree(t, objectOf(t, body)), a.Response.Patch); err != nil {
			t.Fatalf("%s: %v", a.Response.Patch, err)
		}
	})
}
