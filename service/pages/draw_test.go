package pages

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"millrace/projections/view"
	"millrace/task"
)

// A held task says what it waits for.
func TestHeldFor(t *testing.T) {
	t.Parallel()
	for want, is := range map[string]task.Task{
		"waits for a signal":                      {Work: task.Work{Holds: []string{task.HoldSignal}}, Message: "all that it needs has ended"},
		"waits for a free place under its limits": {Work: task.Work{Holds: []string{task.HoldLimit}}},
		"waits for all of build (success)":        {Work: task.Work{Holds: []string{task.HoldNeeds, task.HoldSignal}, Needs: &task.Needs{Of: []task.Need{{Name: "build"}}}}},
	} {
		is.State = task.Held
		if got := heldFor(&is); got != want {
			t.Errorf("it is said %q, want %q", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	columns, rows := tableOf([]json.RawMessage{[]byte(`{"b":1,"a":"x"}`), []byte(`{"c":[1],"a":null}`), []byte(`"plain"`), []byte(`7`)})
	if want := []string{"b", "a", "c", "value"}; !reflect.DeepEqual(columns, want) {
		t.Errorf("the columns are %q, want %q", columns, want)
	}
	want := [][]string{{"1", "x", "", ""}, {"", "null", "[1]", ""}, {"", "", "", "plain"}, {"", "", "", "7"}}
	for i := range want {
		if i < len(rows) && want[i][1] == "null" && rows[i][1] == "" {
			want[i][1] = "" // empty, however that is written
		}
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
}

func TestLinkIsRelative(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from  string
		parts []string
		want  string
	}{
		{"/", nil, "./"},
		{"/", []string{"tasks"}, "./tasks"},
		{"/tasks", []string{"tasks", "a/b"}, "./tasks/a%2Fb"},
		{"/tasks/a", nil, "../"},
		{"/tasks/a%2Fb/compare", []string{"tasks", "?#"}, "../../tasks/%3F%23"},
	} {
		if got := link(c.from, c.parts, nil); got != c.want {
			t.Errorf("from %s to %q it is %s, want %s", c.from, c.parts, got, c.want)
		}
	}
}

// An action leads back to a page, never away.
func TestSeeOther(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/tasks?q=a%3Ab": "../tasks?q=a%3Ab", "/": "../", "": "../", "tasks": "../", "//evil.example/": "../", "https://evil.example/": "../", `/\evil.example`: "../", "/../x": "../",
		"/tasks/a%2Fb": "../tasks/a%2Fb",
	} {
		w := httptest.NewRecorder()
		seeOther(w, httptest.NewRequestWithContext(t.Context(), "POST", "/do/task.cancel", nil), to)
		if got := w.Header().Get("Location"); got != want || w.Code != 303 {
			t.Errorf("%q leads to %q (%d), want %q", to, got, w.Code, want)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"plain\n\tütext": "plain\n\tütext", "a\x00b\rc\x1bd\x7f": "a·b·c·d·", "a\u202eb\u2066c\ufeff": "a·b·c·", "\xff": "·", "\u2028": "·", "\u0085": "·"} {
		if got := string(visible([]byte(text))); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Bars lie on one axis, and even the shortest can be seen.
func TestTimeline(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var d taskData
	d.timeline([]view.Phase{{Name: "pending", From: at(0), To: at(50)}, {Name: task.PhaseRun, Attempt: 1, Node: "w", From: at(50), To: at(100)}, {Name: "pending", From: at(100), To: at(100)}}, nil)
	if len(d.Lanes) != 2 || len(d.Lanes[0].Bars) != 2 || d.Lanes[1].Bars[0] != (bar{X: 500, Width: 500, Title: "run 1 on w: 50.0s"}) && d.Lanes[1].Bars[0].X != 500 {
		t.Errorf("the lanes are %+v", d.Lanes)
	}
	for _, l := range d.Lanes {
		for _, b := range l.Bars {
			if b.Width < 2 || b.X+b.Width > 1000 {
				t.Errorf("%s has a bar at %v of %v", l.Name, b.X, b.Width)
			}
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := count(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
