package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"millrace/events"
	"millrace/history/replay"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

func TestMain(m *testing.M) {
	if os.Getenv(sealEnv) != "" {
		sealAndDie(os.Args[len(os.Args)-1])
	}
	_ = os.Setenv("TZ", "UTC") // the screen shows local times
	os.Exit(m.Run())
}

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const (
	failed = "01JNAT00000000000000000001"
	stuck  = "01JNAT00000000000000000002"
)

// story has a task that fails on one node and succeeds on another, one in a queue without workers,
// and names that contain terminal commands. A typed time may call a function.
func story(t testing.TB, typed map[string]func()) *replay.Session {
	t.Helper()
	span := replay.NewSpan(1)
	now, seq := noon, uint64(0)
	add := func(kind events.Kind, f events.Fact) uint64 {
		t.Helper()
		now, seq = now.Add(time.Second), seq+1
		f.ID, f.At, f.Type = fmt.Sprintf("01JNAF%020d", seq), now, events.TypeOf(f.Event)
		raw, err := events.Encode(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		if err := span.Add(&events.Record{Seq: seq, Stored: now, Kind: kind, Fact: f, Place: "mr." + kind.String() + "." + f.About(), Raw: raw}, true); err != nil {
			t.Fatal(err)
		}
		return seq
	}
	for _, id := range []node.ID{"a", "b"} {
		session := "s-" + string(id)
		for _, e := range []node.Event{
			node.Registered{Session: session, Profile: node.Profile{Slots: 2, Queues: []string{"images"}, Probes: true}},
			node.WentOnline{Session: session, Connection: 1}, node.BecameReady{Session: session, Connection: 1},
		} {
			add(events.KindNode, events.Fact{Node: id, Event: e})
		}
	}
	submit := func(id task.ID, queue string) {
		birth, err := birth.Of(birth.Submission{Queue: queue, Spec: &job.Spec{Handler: "work", Retry: job.Retry{Max: 2}}}, nil, 0, now)
		if err != nil {
			t.Fatal(err)
		}
		add(events.KindOffer, events.Fact{Task: id, Event: birth})
	}
	on := func(id task.ID, by *task.By, e task.Event) uint64 {
		return add(events.KindChain, events.Fact{Task: id, Actor: "a", By: by, Event: e})
	}
	submit(failed, "images") // 7
	epoch := on(failed, nil, task.AttemptStarted{Attempt: 1, Node: "a", Session: "s-a", Offer: 7})
	on(failed, &task.By{Drawn: 0.5}, task.AttemptFailed{Attempt: 1, Epoch: epoch, Class: value.Exit, Message: "no room \x1b]52;c;ZXZpbA==\a für 画像",
		Retry: &task.RetryPlan{Attempt: 2, Due: now.Add(2 * time.Second)}})
	submit(stuck, "bulk") // 10
	add(events.KindQueue, events.Fact{Queue: "bulk", Actor: "kim", Event: queue.Paused{Reason: "too loud \x1b[2J 音"}})
	add(events.KindOffer, events.Fact{Task: failed, Event: task.Queued{Work: task.Work{Spec: &job.Spec{Handler: "work", Retry: job.Retry{Max: 2}}, Route: placement.QueueRoute("images", 5)}, Attempt: 2, After: 9}})
	epoch = on(failed, nil, task.AttemptStarted{Attempt: 2, Node: "b", Session: "s-b", Offer: 12})
	exit := 0
	on(failed, nil, task.AttemptFinished{Attempt: 2, Epoch: epoch, Exit: &exit}) // 14
	add(events.KindQueue, events.Fact{Queue: "bulk", Actor: "kim", Event: queue.Resumed{}})
	now = now.Add(6 * time.Minute) // no worker serves bulk
	add(events.KindNode, events.Fact{Node: "a", Event: node.WentOffline{Session: "s-a", Reason: "silent"}})
	x, err := replay.New(span, replay.Config{
		Rules:  view.Rules{Task: duties.Settings{StartDeadline: 5 * time.Minute, AckWait: 30 * time.Second, Slack: 3 * time.Second, Timer: 15 * time.Second}, Node: node.Settings{TTL: 10 * time.Second}},
		Margin: 15 * time.Second,
		Time: func(text string, _ time.Time) (time.Time, error) {
			if do := typed[text]; do != nil {
				do()
			}
			return time.Parse(time.DateTime, text)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// player presses keys, and does at once what the screen asks for.
type player struct {
	testing.TB
	x    *replay.Session
	m    Model
	last Ask
}

func begin(t testing.TB) *player {
	x := story(t, nil)
	s, err := scene(t.Context(), x, false)
	if err != nil {
		t.Fatal(err)
	}
	return &player{TB: t, x: x, m: New("log.jsonl", false, s, "#1 to #16, 16 messages; ? lists the commands")}
}

// press presses keys: a letter each, but <enter> and the like.
func (p *player) press(keys string) {
	p.Helper()
	for keys != "" {
		key := string([]rune(keys)[0])
		keys = keys[len(key):]
		if name, rest, named := strings.Cut(keys, ">"); key == "<" && named {
			key, keys = name, rest
		}
		if key == " " {
			key = "space"
		}
		p.m, p.last = p.m.Press(key)
		for p.last.Do != "" {
			p.shown(p.last)
		}
	}
}

func (p *player) shown(ask Ask) {
	p.Helper()
	answer, did := p.x.Do(p.Context(), ask.Do)
	s, err := scene(p.Context(), p.x, ask.Along)
	if err != nil {
		p.Fatal(err)
	}
	s.Answer, s.Err = answer, did
	p.m, p.last = p.m.Shown(s)
}

// The screen matches its golden files, at each size; go test -update writes them.
func TestScreens(t *testing.T) {
	for name, keys := range map[string]string{
		"begin":    "",
		"claimed":  "o task 00000001<enter>bstate retrying<enter>blate<enter>mbegan the first one<enter>g8<enter>",
		"failed":   "o task 00000001<enter>bstate retrying<enter>c",
		"late":     "blate<enter>c",
		"along":    "o task 00000001<enter>g9<enter>a",
		"causes":   "g13<enter>k",
		"help":     "?",
		"point":    "o task 00000001<enter>bstate retrying<enter>c<pgdown><pgdown>",
		"prompt":   "b",
		"mistaken": "bstate runing<enter>",
	} {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}} {
			p := begin(t)
			p.press(keys)
			got := View(p.m, size[0], size[1]) + "\n"
			path := filepath.Join("testdata", fmt.Sprintf("%s_%d.txt", name, size[0]))
			if *testkit.Update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal([]byte(got), want) {
				t.Errorf("%s at %d columns is\n%s\nwant\n%s", name, size[0], got, want)
			}
		}
	}
}

// Whatever is on the screen, it fills the terminal exactly, and sends it no commands but colours.
func TestScreensFit(t *testing.T) {
	p := begin(t)
	for _, keys := range []string{"", "blate<enter>", "c", "g9<enter>", "bstate retrying<enter>", "mx a note of some length, which says why<enter>", "ca", "k", "<esc>K", "<esc>?", "<down>", "<esc>g11<enter>", "/", "<esc>z", "b" + strings.Repeat("画像 ", 80)} {
		p.press(keys)
		for _, colours := range []bool{false, true} {
			p.m.Colours = colours
			for width := 2; width < 230; width += 29 {
				for height := 1; height < 60; height += 9 {
					text := View(p.m, width, height)
					lines := strings.Split(text, "\n")
					if width >= leastWidth && height >= leastHeight && len(lines) != height || len(lines) > height {
						t.Fatalf("%q at %d x %d has %d lines:\n%s", keys, width, height, len(lines), text)
					}
					for _, l := range lines {
						if w := ansi.StringWidth(l); w > width {
							t.Fatalf("%q at %d x %d: %d columns in %q", keys, width, height, w, l)
						}
					}
					if plain := ansi.Strip(text); strings.ContainsAny(plain, "\x1b\a\r") || strings.Contains(text, "\x1b]") || strings.Contains(text, "\x1b[2J") {
						t.Fatalf("%q at %d x %d: %q", keys, width, height, text)
					} else if !colours && plain != text {
						t.Fatalf("without colours there are some: %q", text)
					}
				}
			}
		}
	}
}

// Keys reach all of a line that is longer than the screen, and both ends of a list.
func TestLongLinesOfAList(t *testing.T) {
	long := strings.Repeat("0123456789", 6000) + "last"
	m := Model{scene: begin(t).m.scene}.open("point", []string{"first", long, "below"})
	shown := func(key string) string {
		m, _ = m.Press(key)
		return View(m, leastWidth, leastHeight)
	}
	found := false
	for range 6000 {
		text := shown("down")
		if found = strings.Contains(text, "last"); found || strings.Contains(text, "below") {
			break
		}
	}
	if !found {
		t.Error("the end of a long line is never shown")
	}
	if text := shown("home"); !strings.Contains(text, "first") {
		t.Errorf("Home leads to\n%s", text)
	}
	if text := shown("end"); !strings.Contains(text, "below") {
		t.Errorf("End leads to\n%s", text)
	}
}

// Colours carry nothing that the signs do not: without them the text is the same.
func TestColours(t *testing.T) {
	p := begin(t)
	p.press("blate<enter>cg9<enter>")
	plain := View(p.m, 120, 40)
	p.m.Colours = true
	coloured := View(p.m, 120, 40)
	strip := func(text string) (lines []string) {
		for l := range strings.Lines(ansi.Strip(text)) {
			lines = append(lines, strings.TrimRight(l, " \n"))
		}
		return lines
	}
	if a, b := strip(plain), strip(coloured); strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Errorf("%s\nis with colours\n%s", plain, coloured)
	}
	if !strings.Contains(coloured, "\x1b[33m~ state") || !strings.Contains(coloured, "\x1b[31m! no") && !strings.Contains(coloured, "\x1b[32m+ ") {
		t.Errorf("there are no colours: %q", coloured)
	}
}

// However long the names of their types are, the facts stand in columns.
func TestFactsStandInColumns(t *testing.T) {
	m := begin(t).m
	m.scene.Lines = nil
	for i, name := range []events.Type{events.TypeOf(task.Due{}), events.TypeOf(task.CancelRequested{}), events.TypeOf(task.AttemptStarted{}), events.TypeOf(queue.Resumed{})} {
		m.scene.Lines = append(m.scene.Lines, replay.Line{Seq: uint64(i + 1), Stored: noon, Type: string(name), About: "task " + stuck})
	}
	for _, most := range []int{1, 4} {
		rows, _ := m.facts(80, most)
		at := strings.Index(rows[0].text, "task …")
		for _, r := range rows {
			if strings.Index(r.text, "task …") != at || !strings.Contains(r.text[:at], " "+m.scene.Lines[r.seq-1].Type+" ") {
				t.Errorf("%q is not in the columns of %q", r.text, rows[0].text)
			}
		}
	}
	if !strings.Contains(View(m, 80, 24), " 12:00:00.000 task.cancel_requested task …") {
		t.Errorf("at 80 columns a type is cut:\n%s", View(m, 80, 24))
	}
}

// The wheel steps and scrolls, and a click on a fact goes there, unless the mouse is left to the
// terminal.
func TestMouse(t *testing.T) {
	p := begin(t)
	act := func(do func(Model) (Model, Ask)) {
		for p.m, p.last = do(p.m); p.last.Do != ""; {
			p.shown(p.last)
		}
	}
	down := func(m Model) (Model, Ask) { return m.Wheel(true) }
	up := func(m Model) (Model, Ask) { return m.Wheel(false) }
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}} {
		p.press("<home>")
		act(down)
		act(down)
		act(up)
		if seq := p.m.scene.Frame.Seq; seq != 1 {
			t.Errorf("the wheel leads to #%d", seq)
		}
		lines := strings.Split(View(p.m, size[0], size[1]), "\n")
		y := 0
		for !strings.HasPrefix(strings.TrimLeft(lines[y], " *>"), "4 ") {
			y++
		}
		click := func(x, y int) { act(func(m Model) (Model, Ask) { return m.Click(x, y, size[0], size[1]) }) }
		click(5, y)
		if seq := p.m.scene.Frame.Seq; seq != 4 {
			t.Errorf("at %d columns the click leads to #%d, want 4", size[0], seq)
		}
		for _, at := range [][2]int{{5, 0}, {5, 1}, {5, size[1] - 1}, {5, -1}, {5, 99}, {-1, y + 1}, {size[0] + 1, y + 1}} {
			click(at[0], at[1])
		}
		if size[0] >= twoColumns {
			click(size[0]-1, y+1) // in another pane
		}
		if seq := p.m.scene.Frame.Seq; seq != 4 || p.m.wrong {
			t.Errorf("clicks beside the facts lead to #%d: %s", seq, p.m.said)
		}
	}
	p.press("?")
	act(down)
	if act(down); p.m.top != 2*wheelLines {
		t.Errorf("the list is scrolled to %d", p.m.top)
	}
	p.m, _ = p.m.Click(5, 5, 80, 24)
	for range 99 {
		act(up)
	}
	if p.m.top != 0 || p.m.list == nil {
		t.Errorf("the list is scrolled to %d", p.m.top)
	}
	p.press("<esc>")
	p.m.doing = "c"
	if _, ask := p.m.Wheel(true); ask != (Ask{}) || len(p.m.waiting) > 0 {
		t.Error("while a command runs, turns of the wheel wait")
	}
	p.m.doing = ""
	s := screen{model: p.m, width: 80, height: 24}
	if s.View().MouseMode != tea.MouseModeCellMotion {
		t.Error("the terminal does not report the mouse")
	}
	p.press("M")
	if s.model = p.m; s.View().MouseMode != tea.MouseModeNone || !strings.Contains(p.m.said, "selects text") {
		t.Errorf("the mouse is not left to the terminal: %s", p.m.said)
	}
	p.press("M")
	if s.model = p.m; s.View().MouseMode != tea.MouseModeCellMotion {
		t.Error("the mouse is not taken back")
	}
}

// Each entry has keys, and behind => what they lead to: a sequence, a message, or a request.
func TestKeys(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"step":             {"sss", "#3"},
		"back":             {"sssS", "#2"},
		"arrows":           {"<down><down><up><end>", "#16"},
		"home":             {"<end><home>", "#0"},
		"goto":             {"g9<enter>", "#9"},
		"goto, left":       {"g9<esc>", "#0"},
		"corrected":        {"g19<backspace><backspace>4<enter>", "#4"},
		"begun anew":       {"g19<ctrl+u>5<enter>", "#5"},
		"again":            {"g5<enter>sg<up><enter>", "#5"},
		"focus":            {"o task 00000001<enter>nnn", "#9"},
		"state":            {"o task 00000001<enter>ff", "#8"},
		"breakpoint":       {"bstate retrying<enter>", "1 set, 1 hit"},
		"run":              {"bstate retrying<enter>c", "#9"},
		"none":             {"bstate retrying<enter>cc", "! no breakpoint is hit before the span ends"},
		"no breakpoint":    {"c", "! there is no breakpoint to run to"},
		"removed":          {"blate<enter>x1<enter>", "1 removed"},
		"watch":            {"o task 00000001<enter>wstate<enter>wstate<enter>", "#8"},
		"who wrote":        {"o task 00000001<enter><end>Wnode<enter>", "#13"},
		"print":            {"g9<enter>ptask.state<enter>", `"retrying"`},
		"mark":             {"g8<enter>mhere a note<enter>sss'here<enter>", "#8"},
		"note":             {"g8<enter>mhere a note<enter>", "here: #8 12:00:08.000; a note"},
		"find":             {"/too loud<enter>", "#11"},
		"find back":        {"<end>\\no room<enter>", "#9"},
		"any":              {":rev n<enter>", "! no more events about anything in the span"},
		"several":          {":g 4; s; s<enter>", "#6"},
		"nothing typed":    {":<enter>", "#0"},
		"wrong in between": {":g 4; zz; s<enter>", "! there is no command"},
		"where it stands":  {":g 4; zz; s<enter>.", "#4"},
		"no key":           {"z", "! z does nothing here"},
		"in a list":        {"g13<enter>k<down><down>s", "#14"},
		"list left":        {"g13<enter>k<esc>", "#13"},
		"list ended by q":  {"?q", "#0"},
		"quit":             {"q", "quit"},
		"quit typed":       {":q<enter>", "quit"},
		"Ctrl-C":           {"<ctrl+c>", "q ends"},
		"redraw":           {"<ctrl+l>", "redraw"},
		"suspend":          {"<ctrl+z>", "suspend"},
	} {
		p := begin(t)
		p.press(c.keys)
		have := fmt.Sprintf("#%d", p.m.scene.Frame.Seq)
		switch {
		case p.last.Quit:
			have = "quit"
		case p.last.Redraw:
			have = "redraw"
		case p.last.Suspend:
			have = "suspend"
		case !strings.HasPrefix(c.want, "#") && p.m.wrong:
			have = "! " + p.m.said
		case !strings.HasPrefix(c.want, "#"):
			have = p.m.said
		}
		if have != c.want && (strings.HasPrefix(c.want, "#") || !strings.HasPrefix(have, c.want)) {
			t.Errorf("%s: %s leads to %s, want %s", name, c.keys, have, c.want)
		}
	}
}

// While a command runs, keys wait for its end, in their order; Esc stops it and drops them.
func TestKeysWait(t *testing.T) {
	p := begin(t)
	m, first := p.m.Press("s")
	m, none := m.Press("s")
	m, _ = m.Press("b")
	for _, key := range "late" {
		m, _ = m.Press(string(key))
	}
	m, alsoNone := m.Press("enter")
	if first.Do != "s" || none != (Ask{}) || alsoNone != (Ask{}) {
		t.Fatalf("asked for %+v, %+v, %+v", first, none, alsoNone)
	}
	if text := View(m.Seen(40960, 100000), 80, 24); !strings.Contains(text, "s: 40960 of 100000 messages; Esc stops it") {
		t.Errorf("nothing says how far it is:\n%s", text)
	}
	p.m = m
	for ask := first; ask.Do != ""; ask = p.last {
		p.shown(ask)
	}
	if p.m.scene.Frame.Seq != 2 || p.m.said != "1 set, 1 hit" || p.m.Waiting() {
		t.Errorf("at #%d: %s", p.m.scene.Frame.Seq, p.m.said)
	}
	m, _ = p.m.Press("s")
	m, _ = m.Press("s")
	m, stop := m.Press("esc")
	if !stop.Stop {
		t.Errorf("Esc asks for %+v", stop)
	}
	s := p.m.scene
	s.Err = errors.New("stopped: s")
	if m, ask := m.Shown(s); ask != (Ask{}) || m.said != "stopped: s" || m.Waiting() {
		t.Errorf("then %+v: %s", ask, m.said)
	}
}

// A stopped command leaves the session where it was.
func TestStopped(t *testing.T) {
	x := story(t, nil)
	s := &screen{ctx: t.Context(), session: x, idle: make(chan struct{}, 1)}
	s.idle <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	now, ok := s.do(ctx, Ask{Do: "b broken"}).(Scene)
	if !ok || now.Err == nil || now.Err.Error() != "stopped: b broken" || now.Frame == nil || len(now.Breaks) > 0 {
		t.Errorf("%+v", now)
	}
}

// However it ends, the terminal is left, and the session is the caller's again.
func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		keys  string
		found bool
		err   error
		seq   uint64
	}{
		"quit":          {"ss:q\r", true, nil, 2},
		"found nothing": {"s:g end\rs:q\r", false, nil, 16},
		"told to end":   {"sssgbye\r", true, context.Canceled, 3},
		"a panic":       {"sgboom\r", true, tea.ErrProgramPanic, 1},
		"the key q":     {"zq", true, nil, 0},
		"vanishes":      {"", true, ErrGone, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			x := story(t, map[string]func(){"boom": func() { panic("boom") }, "bye": cancel})
			in, keys := io.Pipe()
			defer in.Close()
			begun := make(chan struct{})
			begin := sync.OnceFunc(func() { close(begun) })
			go func() {
				<-begun
				_, _ = io.WriteString(keys, c.keys) // it ends with the pipe
				if c.keys == "" {
					_ = keys.Close()
				}
			}()
			out := &watched{each: func(text string) {
				if strings.Contains(text, "hello") {
					begin()
				}
			}}
			found, err := run(ctx, Terminal{In: in, Out: out}, x, "log", "hello", tea.WithWindowSize(80, 24))
			if found != c.found || !errors.Is(err, c.err) {
				t.Errorf("%v, %v, want %v, %v", found, err, c.found, c.err)
			}
			if x.Seq() != c.seq {
				t.Errorf("the session is at #%d, want #%d", x.Seq(), c.seq)
			}
			if text := out.b.String(); !strings.Contains(text, "\x1b[?1049h") || strings.LastIndex(text, "\x1b[?1049l") < strings.LastIndex(text, "\x1b[?1049h") {
				t.Errorf("the terminal is not left: %q", text)
			}
			if text := out.b.String(); strings.LastIndex(text, "\x1b[?1002l") < strings.LastIndex(text, "\x1b[?1002h") {
				t.Errorf("the mouse is not left to the terminal: %q", text)
			}
		})
	}
}

// watched are the bytes that a terminal is sent.
type watched struct {
	mu   sync.Mutex
	b    bytes.Buffer // guarded by mu
	each func(text string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Write(p)
	w.each(w.b.String())
	return len(p), nil
}
