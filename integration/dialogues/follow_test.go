package dialogues

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A foreign error is one that PostgreSQL has no reason for: the backend was lost, a
// conflict was planned, the client has cancelled. None is that other clients keep all
// backends: a step that would find none is not taken, see player.free.

// site is a frame of a client.
type site struct {
	c *client
	n int
}

// edit is what the direct run does in place of a frame that failed with a foreign
// error: of a Query the first statements, then an error; otherwise an error.
type edit struct {
	site
	keep int
	none bool // it runs to its end
	// commits: what its transaction holds is committed first.
	commits bool
}

// frameOf finds the frame that a site is, and the step it was sent in.
func frameOf(d dialogue, told tale, at site) (f frame, step int) {
	for i, o := range told.outcomes {
		if o.c == at.c && at.n >= o.from && at.n < o.to {
			return d.steps[i].frames[at.n-o.from], i
		}
	}
	return frame{}, -1
}

// foreign lists the frames that failed with foreign errors, and what each may mean.
func (w *world) foreign(d dialogue, told tale) (sites []site, choices [][]edit) {
	forgot := map[*client]bool{} // a refused savepoint command, or a loss, has ended them all
	for i, o := range told.outcomes {
		unknown := map[string]bool{} // names that a group of this step has prepared, or not
		for n := o.from; n < o.to; n++ {
			a := o.c.answers[n]
			at := site{o.c, n}
			if f := d.steps[i].frames[n-o.from]; f.verb == 'P' && (a.code != "" || a.text() == "skipped") {
				unknown[f.name] = true
			} else if a.code == "26000" && f.verb == 'B' && unknown[f.from] {
				a.refused = true
				sites, choices = append(sites, at), append(choices, w.meanings(d, told, at, a))
				continue
			}
			a.refused = w.refusal(a.lines...) && !(a.code == "55000" && d.sure(told, at)) && !(a.code == "0A000" && !w.stale(d, told, i, n-o.from)) && !(a.code == "26000" && !forgotten(d, i, n-o.from)) || forgot[o.c] && a.code == "3B001"
			lost := forgot[o.c] || slices.ContainsFunc(d.steps[:i], func(s step) bool { return s.ends() > 0 }) // unseen, where another error was told
			a.refused = a.refused || lost && a.code == "25P02" && chains(d, i, n-o.from)                       // nobody knows what it would begin
			forgot[o.c] = a.code == "0A000" && strings.Contains(a.text(), "savepoint") || isForeign(a.code, false) || forgot[o.c] && !strings.Contains(a.text(), "Z I")
			if !a.refused && !isForeign(a.code, cancelled(d, told, i) || w.ranOut(d, told, i, a)) && !w.tellsFault(d, told, a.code) {
				continue
			}
			sites = append(sites, at)
			choices = append(choices, w.meanings(d, told, at, a))
		}
	}
	return sites, choices
}

// cancelled tells whether a cancel request was sent in the turn of a step.
func cancelled(d dialogue, told tale, step int) bool {
	c, first := told.outcomes[step].c, step
	for i := step - 1; i >= 0 && !(told.outcomes[i].c == c && told.outcomes[i].ready); i-- {
		if told.outcomes[i].c == c && !told.outcomes[i].skipped {
			first = i
		}
	}
	for i := first; i < len(told.outcomes); i++ {
		if told.outcomes[i].c != c || told.outcomes[i].skipped {
			continue
		}
		if d.steps[i].cancel != noCancel {
			return true
		}
		if told.outcomes[i].ready {
			break
		}
	}
	return false
}

func isForeign(code string, cancelled bool) bool {
	return code == "08006" || code == "08007" || code == "40001" || code == "25000" || code == "57014" && cancelled
}

// meanings are the ways in which an error can be true: the first is the one that the
// client was told; where the outcome is unknown there are more.
func (w *world) meanings(d dialogue, told tale, at site, a *answer) []edit {
	all := []edit{{site: at, keep: a.done}}
	if a.code != "08007" {
		return all
	}
	// That all of it has run is the likeliest besides: the ways of many losses multiply.
	all = append(all, edit{site: at, none: true})
	f, _ := frameOf(d, told, at)
	if w.parts {
		for k := a.done; k <= len(f.parts) && (f.verb == 'Q' || k == a.done); k++ {
			all = append(all, edit{site: at, keep: k, commits: true})
		}
	}
	if f.verb == 'Q' {
		for k := a.done + 1; k <= len(f.parts); k++ {
			all = append(all, edit{site: at, keep: k})
		}
		return all
	}
	for n := at.n; f.verb != 'S' && f.verb != 'Q'; {
		n++
		var step int
		if f, step = frameOf(d, told, site{at.c, n}); step < 0 {
			break
		}
		all = append(all, edit{site: site{at.c, n}})
	}
	return all
}

// mostMeanings bounds the ways in which explain takes the errors of a dialogue.
const mostMeanings = 400

// picks yields the ways to choose one of several, at each of several sites, by number: each
// site's first two in all ways before the others, which are less likely. No slice that was
// yielded is kept.
func picks(choices [][]edit) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for _, few := range []bool{true, false} {
			for pick := make([]int, len(choices)); ; {
				rare := slices.ContainsFunc(pick, func(n int) bool { return n > 1 })
				if rare != few && !yield(pick) {
					return
				}
				i := 0
				for ; i < len(pick); i++ {
					if pick[i]++; pick[i] < len(choices[i]) && !(few && pick[i] > 1) {
						break
					}
					pick[i] = 0
				}
				if i == len(pick) {
					break
				}
			}
		}
	}
}

// explain looks for a direct run that answers as Sluice did. difference is that of
// the one that came furthest.
func (w *world) explain(d dialogue, told tale) (difference string, err error) {
	sites, choices := w.foreign(d, told)
	anew := map[site]frame{}
	furthest, tries := -1, 0
	for pick := range picks(choices) {
		edits := map[site]edit{}
		for i := range sites {
			e := choices[i][pick[i]]
			if !e.none {
				edits[e.site] = e
			}
		}
		for again := true; again; tries++ {
			if tries > 0 {
				if err := w.tablesAnew(); err != nil {
					return "", err
				}
			}
			renewed := len(anew)
			diff, step, err := w.follow(d, told, sites, edits, anew)
			if err != nil || diff == "" {
				return "", err
			}
			if again = len(anew) > renewed; !again && step > furthest {
				difference, furthest = diff, step
			}
		}
		if tries > mostMeanings {
			break
		}
	}
	if w.unknownSettings(d, sites, told) {
		return "", nil
	}
	return difference, nil
}

// tablesAnew puts the tables of the direct run back as they were; the answers that Sluice
// gave stay.
func (w *world) tablesAnew() error {
	_, err := w.direct.sql(w.clean())
	if err == nil && w.dirty {
		_, err = w.direct.sql(changing)
	}
	return err
}

// follow plays a dialogue directly, as far as Sluice played it, and returns the
// first difference. In front of the frames in anew their clients prepare these texts
// again; where a difference is that one has not, follow adds it.
func (w *world) follow(d dialogue, told tale, sites []site, edits map[site]edit, anew map[site]frame) (difference string, reached int, err error) {
	p := newPlayer(&w.direct)
	defer p.leave()
	twin := map[*client]*client{}  // of each client of Sluice's
	pending := map[*client][]int{} // the steps of each that PostgreSQL has not answered to their end
	loose := d.fault != "" || len(sites) > 0 || slices.ContainsFunc(d.steps, func(s step) bool { return s.op == "replace" })
	for i, o := range told.outcomes {
		s := d.steps[i]
		if o.skipped {
			continue
		}
		at := fmt.Sprintf("step %d: %s", i+1, s)
		switch s.op {
		case "replace":
			continue
		case "sql":
			if got := p.outsider(s).outside; got != o.outside {
				return fmt.Sprintf("%s\noutside: %q, directly %q", at, o.outside, got), i, nil
			}
			continue
		case "connect", "end", "quit", "vanish":
			got, err := p.step(s)
			if err != nil {
				return "", i, err
			}
			if w.refusal(o.refused) || w.tellsFault(d, told, stateIn(o.refused)) {
				delete(p.clients, s.who)
				continue
			}
			if got.refused != o.refused {
				return fmt.Sprintf("%srefused: %s\ndirectly: %s", at, o.refused, got.refused), i, nil
			}
			if got.c != nil {
				twin[o.c] = got.c
				if diff := paramDifference(o.params, got.params); diff != "" {
					return at + diff, i, nil
				}
			}
			continue
		}
		c := twin[o.c]
		for _, part := range turnsOf(s, o, sites) {
			if err := p.sendEdited(c, w.unhurried(part.frames), part.outcome, edits, anew); err != nil {
				return "", i, err
			}
			c.read()
			if c.breach != "" {
				return "", i, fmt.Errorf("%s PostgreSQL itself: %s", at, c.breach)
			}
			p.align(part.outcome, c)
			p.forget(d, told, part.outcome, c)
			w.endHeld(d, told, i, c)
		}
		pending[c] = append(pending[c], i)
		if len(c.owed) > 0 {
			continue
		}
		for _, i := range pending[c] {
			diff := w.compare(d.steps[i], told.outcomes[i], c, sites, loose)
			if diff == parted || diff != "" && w.setInside(d, told, i) {
				return "", i, nil
			}
			if diff != "" {
				w.renew(d, told, i, c, anew)
				return fmt.Sprintf("step %d: %s%s", i+1, d.steps[i], diff), i, nil
			}
		}
		pending[c] = nil
		inLost := o.to > 0 && o.c.answers[o.to-1].ready == 'E' && slices.ContainsFunc(sites, func(at site) bool { return at.c == o.c })
		// In a block the stand-in reports late: it begins one without a ReadyForQuery, and fails
		// it behind a savepoint of its own.
		inLost = inLost || w.dsql && o.status() == 'T'
		if o.ready && !o.closed && !inLost { // a block that is lost has lost its settings at once
			if diff := paramDifference(o.params, c.params); diff != "" {
				if w.setInside(d, told, i) {
					return "", i, nil
				}
				return at + diff, i, nil
			}
		}
	}
	got, err := w.leaves(&w.direct)
	if err != nil {
		return "", 0, err
	}
	if a, b := leftover(told.left, loose), leftover(got, loose); a != b {
		return fmt.Sprintf("the tables in the end: %s\ndirectly:             %s", a, b), len(d.steps), nil
	}
	return "", 0, nil
}

// turnPart is some of the frames of a step, and what was told of them.
type turnPart struct {
	frames  []frame
	outcome outcome
}

// turnsOf divides a step in which a transaction was lost at each ReadyForQuery: what comes
// behind it is played where the client was told that it stands. Any other step is one part.
func turnsOf(s step, o outcome, sites []site) []turnPart {
	begun := o.from // where the turn began, perhaps in an earlier step
	for begun > 0 && o.c.answers[begun-1].ready == 0 {
		begun--
	}
	if !slices.ContainsFunc(sites, func(at site) bool { return at.c == o.c && begun <= at.n && at.n < o.to }) {
		return []turnPart{{s.frames, o}}
	}
	var parts []turnPart
	from := o.from
	for n := o.from; n < o.to-1; n++ {
		if o.c.answers[n].ready == 0 {
			continue
		}
		part := o
		part.from, part.to, part.ready, part.closed = from, n+1, true, false
		parts = append(parts, turnPart{s.frames[from-o.from : n+1-o.from], part})
		from = n + 1
	}
	part := o
	part.from = from
	return append(parts, turnPart{s.frames[from-o.from:], part})
}

// failing is a text that no server runs.
const failing = "SELECT 1/0"

// beginning is the first n statements of a string. An empty one in between is answered by
// nothing.
func beginning(parts []string, n int) []string {
	for i, part := range parts {
		if n == 0 {
			return parts[:i]
		}
		if strings.TrimSpace(part) != "" {
			n--
		}
	}
	return parts
}

// toldToFail is a Parse that fails. Of the name it leaves what was there; the unnamed
// statement goes, as it does behind each Parse that fails.
func toldToFail(name string) frame {
	return frame{verb: 'P', name: name, parts: []string{"told to fail"}}
}

// sendEdited sends the frames of a step with the edits made.
func (p *player) sendEdited(c *client, frames []frame, o outcome, edits map[site]edit, anew map[site]frame) error {
	for k, f := range frames {
		if again, ok := anew[site{o.c, o.from + k}]; ok {
			n := len(c.answers)
			if err := c.send([]frame{{verb: 'C', kind: 'S', name: again.name}, again}); err != nil {
				return err
			}
			c.answers = c.answers[:n]
		}
		if err := c.commitsEarly(o, frames, k); err != nil {
			return err
		}
		e, ok := edits[site{o.c, o.from + k}]
		if ok && e.commits && f.verb != 'Q' {
			if err := c.hidden(executed("COMMIT", "BEGIN")...); err != nil {
				return err
			}
		}
		switch {
		case !ok:
		case f.verb == 'Q':
			f.parts = append(slices.Clone(beginning(f.parts, e.keep)), failing)
		case f.verb == 'S':
			n := len(c.answers)
			if err := c.send([]frame{toldToFail("told")}); err != nil {
				return err
			}
			c.answers = c.answers[:n]
		case f.verb == 'P':
			f = toldToFail(f.name)
		default:
			f = toldToFail("told")
		}
		if f.verb == 'Q' {
			behind := earlyCommits(o.c.answers[o.from+k].lines)
			if ok && e.commits {
				behind = append(behind, e.keep)
			}
			early := withCommits(f.parts, behind, c.block.open)
			f.parts = early.parts
			if err := c.send([]frame{f}); err != nil {
				return err
			}
			if len(behind) > 0 {
				c.answers[len(c.answers)-1].early = &early
			}
		} else if err := c.send([]frame{f}); err != nil {
			return err
		}
		if ok && o.closed && o.c.answers[o.from+k].fatal { // nothing behind it was run
			if err := p.skipRest(c, f, frames[k+1:]); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// skipRest has frames behind f not run, whose session has ended with f.
func (p *player) skipRest(c *client, f frame, rest []frame) error {
	n := len(c.answers)
	if f.verb != 'Q' && f.verb != 'S' {
		if err := c.send([]frame{{verb: 'S'}}); err != nil {
			return err
		}
	}
	c.answers = c.answers[:n]
	for range rest {
		c.answers = append(c.answers, &answer{lines: []string{"skipped"}})
	}
	return nil
}

// forget takes the statements back that a group prepared which has an unknown outcome: where
// it was run, PostgreSQL has them, and their client was told that they were skipped.
func (p *player) forget(d dialogue, told tale, o outcome, c *client) {
	if !o.ready || o.closed || o.to == o.from {
		return
	}
	begun := o.to - 1 // the turn's first frame
	for begun > 0 && o.c.answers[begun-1].ready == 0 {
		begun--
	}
	unknown := false
	var frames []frame
	for n := min(begun, o.from); n < o.to; n++ {
		unknown = unknown || o.c.answers[n].code == "08007"
		if f, _ := frameOf(d, told, site{o.c, n}); unknown && f.verb == 'P' && f.name != "" {
			frames = append(frames, frame{verb: 'C', kind: 'S', name: f.name})
			if was := believed(d, told, o.c, n, f.name); was != nil {
				frames = append(frames, *was)
			}
		}
	}
	if len(frames) == 0 {
		return
	}
	n := len(c.answers)
	c.send(append(frames, frame{verb: 'S'}))
	c.read()
	c.answers = c.answers[:n]
}

// believed is the Parse of the statement that a client, by what it was told up to answer
// n, has under a name; nil when it has none.
func believed(d dialogue, told tale, c *client, n int, name string) (parse *frame) {
	for k := range n {
		if c.answers[k].code != "" || c.answers[k].text() == "skipped" {
			continue
		}
		switch f, _ := frameOf(d, told, site{c, k}); {
		case f.verb == 'P' && f.name == name:
			parse = &f
		case f.verb == 'C' && f.kind == 'S' && f.name == name:
			parse = nil
		}
	}
	return parse
}

// align brings a direct client where a foreign error has left its twin.
func (p *player) align(o outcome, c *client) {
	if o.closed {
		c.hangUp(true)
		return
	}
	if o.to == 0 || !o.ready {
		return
	}
	ready := o.c.answers[o.to-1].ready
	lost, gone := false, false // gone: with its backend
	for n := o.to - 1; n >= 0 && !lost && (n == o.to-1 || o.c.answers[n].ready == 0); n-- {
		lost = o.c.answers[n].refused || isForeign(o.c.answers[n].code, true)
		gone = o.c.answers[n].code == "08006"
	}
	forgets := gone && ready == 'E' && c.status != 'I' // the savepoints of its block
	if ready == 0 || !lost || ready == c.status && !forgets {
		return
	}
	n := len(c.answers)
	var texts []string
	switch ready {
	case 'I':
		texts = []string{"ROLLBACK"}
	case 'E':
		switch {
		case forgets:
			texts = []string{"ROLLBACK", "BEGIN"}
		case c.status == 'I':
			texts = []string{"BEGIN"}
		}
		texts = append(texts, failing)
	}
	for _, text := range texts {
		c.send([]frame{{verb: 'Q', parts: []string{text}}})
		c.read()
	}
	c.answers = c.answers[:n]
}

// parted is what compare returns where the rest of a dialogue cannot be compared.
const parted = "parted"

// compare compares the answers of a step.
func (w *world) compare(s step, o outcome, c *client, sites []site, loose bool) string {
	for n := o.from; n < o.to; n++ {
		a, b := o.c.answers[n], c.answers[n]
		f := s.frames[n-o.from]
		lost := slices.ContainsFunc(sites, func(at site) bool { return at.c == o.c && sameTurn(o.c, at.n, n) })
		direct := b.lines
		if b.early != nil {
			direct = b.early.strip(direct)
		}
		got, want := w.plain(a.lines, f, loose), w.plain(direct, f, loose)
		if lost {
			got = completed(got, f)
			if !slices.Contains(sites, site{o.c, n}) {
				continue // of a turn that has failed, what came before was compared
			}
			if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
				return fmt.Sprintf("[%s] before it failed:\n  %s\ndirectly:\n  %s", f, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
			continue
		}
		if earlySnapshot(got, want) {
			w.met[snapshotRow]++
			return parted
		}
		if w.dsql && hasError(got, "3B001") && !hasError(want, "") && slices.ContainsFunc(sites, func(at site) bool {
			return at.c == o.c && (o.c.answers[at.n].code == "57014" || o.c.answers[at.n].code == "53300")
		}) {
			w.met[lostRow]++ // a cancel has ended its backend, or it had none
			return parted
		}
		if w.dsql && strings.Contains(strings.Join(got, ""), "C=25001 M=transaction read-write mode must be set") && !hasError(want, "") {
			return parted // the stand-in's statement is in a subtransaction, where no mode can be changed
		}
		if w.dsql && hasError(got, "34000") && hasError(want, "25P02") {
			return parted // the stand-in's statements are in subtransactions, with which portals end
		}
		if hasError(got, "34000") && !hasError(want, "") && slices.ContainsFunc(sites, func(at site) bool { return at.c == o.c && o.c.answers[at.n].code == "08007" }) {
			w.met[lostRow]++ // the cursor's transaction may not have committed
			return parted
		}
		if !slices.Equal(got, want) && !w.tolerated(got, want, sites, o.c) {
			return fmt.Sprintf("[%s]\n  %s\ndirectly:\n  %s", f, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	return ""
}

// sameTurn tells whether frame n belongs to the turn that frame lost failed in.
func sameTurn(c *client, lost, n int) bool {
	if n < lost {
		return false
	}
	for k := lost; k < n; k++ {
		if c.answers[k].ready != 0 {
			return false
		}
	}
	return true
}

// completed is the part of an answer that belongs to statements that were answered to
// their end before an error.
func completed(lines []string, f frame) []string {
	end := 0
	for i, l := range lines {
		if strings.HasPrefix(l, "E ") || strings.HasPrefix(l, "closed") {
			break
		}
		if f.verb == 'Q' && (strings.HasPrefix(l, "C ") || strings.HasPrefix(l, "I ")) {
			end = i + 1
		}
	}
	return lines[:end]
}

// paramDifference compares what clients know of the reported parameters.
func paramDifference(got, want map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !aboutServer[name] && got[name] != want[name] {
			return fmt.Sprintf("parameter %s was reported as %q, directly as %q", name, got[name], want[name])
		}
	}
	return ""
}

// aboutServer are the parameters that tell which server and user it is.
var aboutServer = map[string]bool{"server_version": true, "session_authorization": true, "is_superuser": true, "in_hot_standby": true}

// The likely meanings of many losses are tried before the others, each meaning once.
func TestLikelyMeaningsComeFirst(t *testing.T) {
	choices := make([][]edit, 6)
	all := 1
	for i := range choices {
		choices[i] = make([]edit, 1+i)
		all *= len(choices[i])
	}
	seen := map[string]bool{}
	for pick := range picks(choices) {
		if rare := slices.ContainsFunc(pick, func(n int) bool { return n > 1 }); rare != (len(seen) >= 1<<5) {
			t.Fatalf("%v is number %d", pick, len(seen)+1)
		}
		seen[fmt.Sprint(pick)] = true
	}
	if len(seen) != all {
		t.Errorf("%d ways, want %d", len(seen), all)
	}
	for range picks(nil) {
		all--
	}
	if all != len(seen)-1 {
		t.Error("where nothing was lost there is one way")
	}
}
