package task_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/value"
)

func TestRoute(t *testing.T) {
	for _, c := range []struct {
		queue    string
		priority int
		want     placement.Route
	}{{placement.DefaultQueue, placement.DefaultPriority, "default.5"}, {"default", 6, "default.6"}, {"images", 10, "images.10"}, {"a-b_c", 1, "a-b_c.1"}} {
		got := placement.QueueRoute(c.queue, c.priority)
		if got != c.want || got.Queue() != c.queue || got.Priority() != c.priority || got.Validate() != nil {
			t.Errorf("%q at %d is the route %q (%q, %d, %v), want %q", c.queue, c.priority, got, got.Queue(), got.Priority(), got.Validate(), c.want)
		}
	}
	for route, want := range map[placement.Route]string{
		"":            "want <queue>.<priority>",
		"default":     "want <queue>.<priority>",
		".5":          `queue name ""`,
		"-a.5":        `queue name "-a"`,
		"a b.5":       `queue name "a b"`,
		"*.5":         `queue name "*"`,
		"default.":    `priority is ""`,
		"default.0":   `priority is "0", want 1 to 10`,
		"default.11":  `priority is "11", want 1 to 10`,
		"default.-1":  `priority is "-1"`,
		"default.+5":  `priority is "+5"`,
		"default.05":  `priority is "05"`,
		"default.5.5": `priority is "5.5"`,
		"default.>":   `priority is ">"`,
	} {
		logtest.CheckError(t, string(route), route.Validate(), want)
	}
	own := placement.NodeRoute("node-1", 7)
	if n, ok := own.Node(); own != "@node-1.7" || own.Queue() != placement.NodeQueue("node-1") || n != "node-1" || !ok || own.Priority() != 7 || own.Validate() != nil {
		t.Errorf("the route of a node is %q of %q, %v; %v", own, n, ok, own.Validate())
	}
	if n, ok := placement.Route("default.5").Node(); n != "" || ok {
		t.Errorf("the route of a queue is that of node %q", n)
	}
	for route, want := range map[placement.Route]string{"@.5": `node name ""`, "@@a.5": `node name "@a"`, "a@b.5": `queue name "a@b"`, "@a.0": "priority"} {
		logtest.CheckError(t, string(route), route.Validate(), want)
	}
	for route, want := range map[placement.Route]int{"": placement.DefaultPriority, "a": placement.DefaultPriority, "a.x": placement.DefaultPriority, "a.7": 7} {
		if got := route.Priority(); got != want {
			t.Errorf("%q has the priority %d, want %d", route, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = placement.Route("default.5").Validate() }); n != 0 {
		t.Errorf("a valid route costs %v allocations", n)
	}
}

func TestValidName(t *testing.T) {
	for _, good := range []string{"a", "Z", "0", "_", "a-b", "a_b-9", "_-", strings.Repeat("x", 64)} {
		logtest.CheckError(t, good, value.ValidName("job", good), "")
	}
	for _, bad := range []string{"", "-", "-a", "a.b", "a b", "a*", ">", "a\n", "é", "a\x00", strings.Repeat("x", 65)} {
		logtest.CheckError(t, bad, value.ValidName("job", bad), "job name")
	}
}

// Handlers are called as in other systems.
func TestValidHandler(t *testing.T) {
	for _, good := range []string{"resize", "email:deliver", "sort.strings", "a.b:c-d_e", "_:", strings.Repeat("x", 64)} {
		logtest.CheckError(t, good, value.ValidName(value.KindHandler, good), "")
	}
	for _, bad := range []string{"", ".", ":", ".a", ":a", "-a", "a b", "a*", "a/b", "é", strings.Repeat("x", 65)} {
		logtest.CheckError(t, bad, value.ValidName(value.KindHandler, bad), "'.', ':'")
	}
	logtest.CheckError(t, "a title", value.ValidName("job", "Отчёт"), "letters a to z or A to Z, digits, '_' or '-', not beginning with '-'; the title may be any text")
}

func TestParseID(t *testing.T) {
	const upper = "01JD6Z8V3M0QK4T7W2X9Y5ABCD"
	for _, good := range []string{upper, strings.ToLower(upper)} {
		if id, err := task.ParseID(good); err != nil || id != upper {
			t.Errorf("%q is the id %q, %v", good, id, err)
		}
	}
	for _, bad := range []string{"", "1", upper + "0", upper[:25], upper[:25] + "U", upper[:25] + ".", upper[:25] + "*", "8" + upper[1:], " " + upper[1:]} {
		if id, err := task.ParseID(bad); err == nil {
			t.Errorf("%q passes as the id %q", bad, id)
		} else {
			logtest.CheckError(t, bad, err, "want a ULID")
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1ns": 1, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond, "2562047h47m16.854775807s": 1<<63 - 1,
	} {
		var d value.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() != want {
			t.Errorf("%q is %v, %v; want %v", text, d, err, want)
		}
		again, err := d.MarshalText()
		var e value.Duration
		if err != nil || e.UnmarshalText(again) != nil || e != d {
			t.Errorf("%q is written %q and read as %v", text, again, e)
		}
	}
	for text, want := range map[string]string{
		"": "is no duration", "5": "want a number with a unit", "1y": "is no duration", "NaNs": "is no duration", "-1s": "is negative",
		"2562047h47m16.854775808s": "is no duration", "1h 30m": "is no duration",
	} {
		d := value.Duration(7)
		logtest.CheckError(t, text, d.UnmarshalText([]byte(text)), want)
		if d != 7 {
			t.Errorf("%q was refused and changed the duration to %v", text, d)
		}
	}
	var d value.Duration
	if err := json.Unmarshal([]byte(`5`), &d); err == nil {
		t.Errorf("a bare number passes as %v", d)
	}
}

func TestState(t *testing.T) {
	terminal := map[task.State]bool{task.Finished: true, task.Error: true, task.Cancelled: true, task.Abnormal: true}
	all := task.States()
	if len(all) != len(value.StateNames)-1 {
		t.Errorf("there are %d states, want all but unknown", len(all))
	}
	for _, s := range all {
		if got, err := task.ParseState(s.String()); err != nil || got != s {
			t.Errorf("%q is read as %s, %v", s.String(), got, err)
		}
		if s.Terminal() != terminal[s] {
			t.Errorf("%s: terminal is %v", s, s.Terminal())
		}
		text, err := json.Marshal(s)
		var read task.State
		if err != nil || json.Unmarshal(text, &read) != nil || read != s {
			t.Errorf("%s is written as %s and read as %s", s, text, read)
		}
		one := task.Task{State: s}
		if n := btoi(one.Waiting()) + btoi(one.Live()) + btoi(s.Terminal()); n != 1 {
			t.Errorf("%s is %d of waiting, live and terminal; want one", s, n)
		}
	}
	for _, bad := range []string{"", "unknown", "Pending", "state(7)"} {
		_, err := task.ParseState(bad)
		logtest.CheckError(t, bad, err, "there are scheduled, held, pending")
	}
	if got := task.State(99).String(); got != "state(99)" || task.State(99).Terminal() {
		t.Errorf("a state of another version is %q, terminal: %v", got, task.State(99).Terminal())
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
