package simulation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/schedule"
)

// reader folds a task by the table in docs/wire.md, from the JSON of its facts and from nothing that
// Millrace says of them.
type reader struct {
	state, reason, node, route   string
	attempt, epoch, turn, losses uint64
	exit                         any
	due                          time.Time
	holds                        []string
	offered, born, chained       bool
	parked                       bool // its function waits
	late                         bool // its first facts are not read
	carried                      *line
	spec, birth                  map[string]any
	births                       []line // off the chain
}

// line is a message of the stream.
type line struct {
	seq    uint64
	chain  bool
	stored time.Time
	body   map[string]any
}

// row is one of the table.
type row struct {
	conditions    []string
	state, reason string
	besides       []string
}

// wireTable reads the table of the page.
func wireTable(t *testing.T) (rows map[string][]row, page string) {
	text, err := os.ReadFile("../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What a fact makes of its task\n")
	rows = map[string][]row{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || !strings.Contains(cells[1], ".") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		list := func(cell string) []string {
			return slices.DeleteFunc(strings.Split(cell, ", "), func(s string) bool { return s == "" })
		}
		typ := strings.Trim(cells[1], "`")
		rows[typ] = append(rows[typ], row{list(cells[2]), cells[3], cells[4], list(cells[5])})
	}
	return rows, string(text)
}

// number is a number of a body, 0 if it is absent.
func (l *line) number(name string) uint64 {
	n, _ := l.body[name].(json.Number)
	i, _ := n.Int64()
	return uint64(i)
}

func (l *line) text(name string) string { s, _ := l.body[name].(string); return s }

// park is a field of what a function waits for.
func (l *line) park(name string) string {
	of, _ := l.body["park"].(map[string]any)
	return (&line{body: of}).text(name)
}

// fold is what a task is that is carried.
func (l *line) fold() *line {
	of, _ := l.body["fold"].(map[string]any)
	return &line{seq: l.seq, body: of}
}

func (l *line) time(name string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, l.text(name))
	return at
}

func (l *line) list(name string) (all []string) {
	of, _ := l.body[name].([]any)
	for _, v := range of {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

func (k *reader) parent() bool {
	place, _ := k.spec["place"].(map[string]any)
	return k.spec["each"] != nil || k.spec["steps"] != nil || place["mode"] == "all" || place["each"] == true || place["count"] != nil
}

func (k *reader) limited() bool {
	return !k.parent() && (k.spec["concurrency"] != nil || k.spec["budget"] != nil || k.spec["rate"] != nil)
}

func (k *reader) live() bool { return k.state == "running" || k.state == "cancelling" }
func (k *reader) ended() bool {
	return slices.Contains([]string{"finished", "error", "cancelled", "abnormal"}, k.state)
}
func (k *reader) waiting() bool {
	return slices.Contains([]string{"scheduled", "held", "pending", "retrying"}, k.state)
}

// holdsFor tells whether a condition of the table holds.
func (k *reader) holdsFor(t *testing.T, condition string, l *line) bool {
	switch condition {
	case "never":
		return false
	case "forgotten":
		c := k.carried
		return k.late && c != nil && c.seq+1 == l.seq && c.fold().number("head") == l.number("head")
	case "first":
		return !k.born
	case "parent":
		return k.parent()
	case "limits":
		return k.limited()
	case "holds", "no holds":
		return (len(l.list("holds")) > 0) == (condition == "holds")
	case "window", "due":
		return l.body[condition] != nil
	case "on the chain":
		return l.chain
	case "collapses":
		return k.spec["collapse"] != nil && k.epoch == 0
	case "waits":
		return k.waiting()
	case "live":
		return k.live()
	case "running", "held":
		return k.state == condition
	case "held by limits at most":
		return k.state != "held" || slices.Equal(k.holds, []string{"limit"})
	case "ended", "not ended":
		return k.ended() == (condition == "ended")
	case "its epoch":
		return k.live() && l.number("epoch") == k.epoch
	case "epoch 0":
		return k.epoch == 0
	case "takes over":
		over, _ := l.body["took_over"].(map[string]any)
		return over != nil && (&line{body: over}).number("epoch") == k.epoch
	case "offers":
		early := l.stored.Add(3 * time.Second).Before(k.due)
		closed := slices.Contains(k.holds, "signal") || k.chained && slices.Contains(k.holds, "needs")
		return k.waiting() && !k.offered && !early && !closed && l.number("after") == k.turn && k.turn < l.seq
	case "fires":
		return k.waiting() && !k.offered && len(k.holds) == 0 && l.number("after") == k.turn && l.text("route") == k.route && !l.stored.Add(time.Second).Before(k.due)
	case "postponed":
		return slices.Contains([]string{"window", "breaker", "per_node", "step"}, k.reason)
	case "awaits", "calls":
		return l.park("kind") == map[string]string{"awaits": "await", "calls": "call"}[condition]
	case "no retry":
		return l.body["retry"] == nil
	case "opens":
		return k.state == "held" && slices.Contains(k.holds, l.text("hold"))
	case "not the last":
		return len(k.holds) > 1
	case "due later":
		return k.due.After(l.time("at"))
	case "waits for others":
		return k.birth["needs"] != nil || slices.Contains(k.holds, "signal") && !k.parked
	}
	t.Fatalf("docs/wire.md has the condition %q", condition)
	return false
}

// add folds the next message.
func (k *reader) add(t *testing.T, rows map[string][]row, l line) {
	if l.chain && !k.chained {
		k.bind(t, rows, &l)
	}
	k.chained = k.chained || l.chain
	if l.text("type") == "task.submitted" && !k.born {
		k.birth, k.spec, k.route = l.body, nil, l.text("route")
		k.spec, _ = l.body["spec"].(map[string]any)
	}
	if l.text("type") == "task.submitted" && !l.chain {
		k.births = append(k.births, l)
	}
	if l.text("type") == "task.carried" {
		k.carried = &l
	}
	all, known := rows[l.text("type")]
	if !known {
		t.Fatalf("docs/wire.md has no row for %s", l.text("type"))
	}
	if k.late && l.text("type") != "task.kept" {
		return // what it is, comes with that
	}
	for _, r := range all {
		if !slices.ContainsFunc(r.conditions, func(c string) bool { return !k.holdsFor(t, c, &l) }) {
			k.become(t, &r, &l)
			return
		}
	}
}

// bind reads the first message of the chain, which decides which birth is the task's.
func (k *reader) bind(t *testing.T, rows map[string][]row, l *line) {
	switch l.text("type") {
	case "task.submitted":
		*k = reader{}
	case "attempt.started":
		for i, birth := range k.births {
			if i > 0 && birth.seq == l.number("offer") {
				*k = reader{}
				k.add(t, rows, birth)
				return
			}
		}
	}
}

// resume takes over what was carried of the task.
func (k *reader) resume(l *line) {
	f := k.carried.fold()
	*k = reader{
		state: f.text("state"), reason: f.text("reason"), node: f.text("node"), route: f.text("route"),
		attempt: f.number("attempt"), epoch: f.number("epoch"), turn: f.number("turn"), losses: f.number("losses"),
		exit: f.body["exit"], due: f.time("due"), holds: f.list("holds"), offered: f.body["offered"] == true, born: true, chained: true,
		birth: map[string]any{"needs": f.body["needs"]},
	}
	k.spec, _ = f.body["spec"].(map[string]any)
	durable, _ := f.body["durable"].(map[string]any)
	if parked, _ := durable["parked"].(map[string]any); parked != nil {
		if k.parked = true; parked["kind"] == "call" {
			k.birth["needs"] = parked["before"]
		}
	}
}

var literal = regexp.MustCompile("^`([a-z_]+)`$")

func (k *reader) become(t *testing.T, r *row, l *line) {
	was := *k
	k.born = k.born || l.text("type") == "task.submitted"
	switch l.text("type") {
	case "task.kept":
		k.resume(l)
	case "attempt.parked":
		k.parked = true
	case "attempt.started", "task.unheld", "task.reopened":
		k.parked = false
	}
	for _, b := range r.besides {
		if b == "turn if on the chain" {
			if b = ""; l.chain {
				b = "turn"
			}
		}
		switch b {
		case "":
		case "turn":
			k.turn, k.offered = l.seq, false
		case "holds":
			k.holds = l.list("holds")
		case "no holds":
			k.holds = nil
		case "held by limits":
			k.holds = []string{"limit"}
		case "held by limits too":
			k.holds = append(k.holds, "limit")
		case "held by `signal`", "held by `needs`":
			k.holds = []string{strings.Trim(strings.TrimPrefix(b, "held by "), "`")}
		case "less its hold":
			k.holds = slices.DeleteFunc(slices.Clone(k.holds), func(h string) bool { return h == l.text("hold") })
		case "held again":
			k.holds = nil
			if k.birth["needs"] != nil {
				k.holds = append(k.holds, "needs")
			}
			if slices.Contains(was.holds, "signal") && !was.parked {
				k.holds = append(k.holds, "signal")
			}
			if k.limited() {
				k.holds = append(k.holds, "limit")
			}
		case "offered":
			k.offered = true
		case "due":
			k.due = l.time("due")
		case "no due":
			k.due = time.Time{}
		case "the due of `retry`":
			retry, _ := l.body["retry"].(map[string]any)
			k.due = (&line{body: retry}).time("due")
		case "the due of `park`":
			k.due, _ = time.Parse(time.RFC3339Nano, l.park("until"))
		case "attempt":
			k.attempt = l.number("attempt")
		case "epoch":
			k.epoch = l.seq
		case "node":
			k.node = l.text("node")
		case "route":
			k.route = l.text("to")
		case "exit":
			k.exit = l.body["exit"]
		case "no exit":
			k.exit = nil
		case "a loss":
			k.losses++
		case "another life", "no losses":
			k.losses = 0
		case "all that `fold` has":
		default:
			t.Fatalf("docs/wire.md says %q besides", b)
		}
	}
	if m := literal.FindStringSubmatch(r.state); m != nil {
		k.state = m[1]
	} else if r.state == "that of `fold`" {
		return
	} else if r.state == "its `state`" {
		k.state = l.text("state")
	} else if r.state != "as before" {
		t.Fatalf("docs/wire.md has the state %q", r.state)
	}
	first, other, _ := strings.Cut(r.reason, ", else ")
	field, its := strings.CutPrefix(first, "its ")
	switch m := literal.FindStringSubmatch(first); {
	case its:
		if k.reason = l.text(strings.Trim(field, "`")); k.reason == "" {
			k.reason = strings.Trim(other, "`")
		}
	case m != nil:
		k.reason = m[1]
	case first == "none":
		k.reason = ""
	case first == "first hold", first == "first hold left":
		k.reason = k.holds[0]
	case first != "as before":
		t.Fatalf("docs/wire.md has the reason %q", r.reason)
	}
}

// differs compares with what the program has.
func (k *reader) differs(is *task.Task) string {
	var exit any
	if is.Exit != nil {
		exit = *is.Exit
	}
	mine := fmt.Sprintln(k.state, k.reason, k.attempt, k.epoch, k.node, k.turn, k.losses, k.route, k.exit)
	his := fmt.Sprintln(is.State, is.Reason, is.Attempt, is.Epoch, is.Node, is.Turn, is.Losses, is.Route, exit)
	if mine == his {
		return ""
	}
	return "by the table it is\n" + mine + "and by the program\n" + his
}

// unplayed are facts that no history here has.
var unplayed = []events.Type{events.AttemptExtended}

// Whoever folds a log by the table of docs/wire.md comes, after each message, to what Millrace comes
// to.
func TestWireTable(t *testing.T) {
	rows, _ := wireTable(t)
	used, compared := map[string]bool{}, 0
	fold := func(name string, records []events.Record, known map[task.ID]bool) {
		readers, tasks := map[task.ID]*reader{}, map[task.ID]task.Task{}
		for i := range records {
			r := &records[i]
			if r.Fact.Task == "" || r.Err != nil || r.Fact.Event == nil || r.Fact.Actor == stranger {
				continue
			}
			k := readers[r.Fact.Task]
			if k == nil {
				k = &reader{late: known[r.Fact.Task]}
				readers[r.Fact.Task] = k
			}
			l := line{seq: r.Seq, chain: r.Kind == events.KindChain, stored: r.Stored, body: bodyOf(t, r)}
			k.add(t, rows, l)
			was := tasks[r.Fact.Task]
			was.ID = r.Fact.Task
			tasks[r.Fact.Task] = task.Evolve(was, r.Task())
			is := tasks[r.Fact.Task]
			used[l.text("type")] = true
			if compared++; !k.late && k.differs(&is) != "" {
				t.Errorf("%s, task %s at #%d, after %s: %s", name, short(r.Fact.Task), r.Seq, l.text("type"), k.differs(&is))
				return
			}
		}
	}
	for _, a := range alterable(t) {
		fold(a.name, a.records, nil)
	}
	limited, _ := ofCorpus(t, "limited")
	fold("limited", limited, nil)
	for name, v := range map[string]variant{"plain": {}, "crowded": {crowded: true}, "windowed": {windowed: true}, "roomy": {roomy: true}, "families": longFamilies, "durable": {durable: true}, "forgetting": {durable: true, forgets: true}, "collapsing": {forgets: true}, "values": {families: true, values: true, length: longFamilies.length}} {
		histories := max(*historiesFlag/20, 1)
		if name == "plain" { // some facts are rare
			histories *= 4
		}
		for seed := range histories {
			h := play(t, *firstFlag+seed, v)
			h.report(t)
			fold(fmt.Sprintf("%s, seed %d", name, *firstFlag+seed), h.records, nil)
			from, before := h.kept()
			fold(fmt.Sprintf("what is left of %s, seed %d", name, *firstFlag+seed), from, before)
		}
	}
	for typ := range rows {
		if *historiesFlag >= many && !used[typ] && !slices.Contains(unplayed, events.Type(typ)) {
			t.Errorf("no log has a %s", typ)
		}
	}
	for _, typ := range events.Types {
		if _, ok := rows[string(typ)]; (strings.HasPrefix(string(typ), "task.") || strings.HasPrefix(string(typ), "attempt.")) && !ok {
			t.Errorf("docs/wire.md has no row for %s", typ)
		}
	}
	t.Logf("%d states compared", compared)
}

// kept is what the log has not forgotten, and which tasks had facts before.
func (h *history) kept() (left []events.Record, known map[task.ID]bool) {
	below := uint64(0)
	for i := range h.records {
		if e, ok := h.records[i].Fact.Event.(task.HorizonPurged); ok {
			below = e.Below
		}
	}
	known = map[task.ID]bool{}
	for i := range h.records {
		if r := &h.records[i]; r.Seq < below {
			known[r.Fact.Task] = true
		} else if below > 0 {
			left = append(left, *r)
		}
	}
	return left, known
}

func bodyOf(t *testing.T, r *events.Record) (body map[string]any) {
	d := json.NewDecoder(strings.NewReader(string(r.Raw)))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		t.Fatal(err)
	}
	return body
}

// Ids are derived as docs/wire.md says.
func TestDerivedIDsOnTheWire(t *testing.T) {
	_, page := wireTable(t)
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	hash := func(text string) (all string) {
		sum := sha256.Sum256([]byte(text))
		bits := ""
		for _, b := range sum[:10] {
			bits += fmt.Sprintf("%08b", b)
		}
		for ; bits != ""; bits = bits[5:] {
			var n int
			_, _ = fmt.Sscanf(bits[:5], "%b", &n)
			all += alphabet[n : n+1]
		}
		return all[:10]
	}
	milliseconds := func(n int64) (text string) {
		for range 10 {
			text, n = alphabet[n%32:n%32+1]+text, n/32
		}
		return text
	}
	const parent = "01K9XA7F3BQZ8M4T2VJ6C0DPRN"
	tick := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	for want, is := range map[task.ID]string{
		birth.ChildID(parent, "sum"):                                            parent[:10] + "MADEBY" + hash(parent+"\x00sum"),
		schedule.TaskID("nightly", tick.In(time.FixedZone("", 3600))):           milliseconds(tick.UnixMilli()) + "MADEBY" + hash("nightly\x002026-03-01T02:30:00Z"),
		schedule.TaskID("nightly", tick.Add(1500*time.Microsecond)):             milliseconds(tick.UnixMilli()+1) + "MADEBY" + hash("nightly\x002026-03-01T02:30:00.0015Z"),
		schedule.TaskID("nightly", time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)): milliseconds(0) + "MADEBY" + hash("nightly\x001960-01-01T00:00:00Z"),
	} {
		if string(want) != is {
			t.Errorf("by the page an id is %s, and it is %s", is, want)
		}
	}
	for _, id := range []task.ID{birth.ChildID(parent, "sum"), schedule.TaskID("nightly", tick)} {
		if !strings.Contains(page, "`"+string(id)+"`") {
			t.Errorf("docs/wire.md has not the example %s", id)
		}
	}
}
