package history

import (
	"fmt"
	"maps"
	"strings"

	"millrace/history/replay"
	"millrace/internal/cli/wording"
)

// Scene is what is visible at a session's point, and the result of the command that led there.
type Scene struct {
	Frame *replay.Frame
	// Lines are facts around the point.
	Lines  []replay.Line
	Span   replay.Overview
	Marks  []replay.Mark
	Breaks []*replay.Breakpoint
	// Answer is the result of the command; nil for none. Err is its error.
	Answer *replay.Answer
	Err    error
}

// Model is the screen, without its size. A change makes a new one.
type Model struct {
	// Name is what is stepped through: a file, or the log.
	Name string
	// Colours tells that the terminal has colours; signs say the same.
	Colours bool
	// Found tells whether the last search succeeded.
	Found bool

	scene Scene
	along bool // list only the facts of the focus
	still bool // the mouse is left to the terminal, which selects text with it
	// doing is the running command, "" for none; waiting are those typed after it.
	doing    string
	waiting  []string
	seen, of int // how far it is

	asking *command          // the command whose text is being typed; nil for none
	text   string            // what is typed
	typed  map[string]string // what was last typed, by the command

	list []string // a list over the panes; nil for none
	what string   // what it lists
	top  int      // how far it is scrolled

	said  string // a line for the user
	wrong bool   // it is an error
}

// command is what a key does.
type command struct {
	key  string // as it is pressed
	do   string // the session's command
	asks bool   // for a text, first
}

// commands are the keys' commands, beside those that move within the screen.
var commands = func() map[string]*command {
	all := map[string]*command{}
	add := func(asks bool, pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = &command{pairs[i], pairs[i+1], asks}
		}
	}
	add(false, "s", "s", "S", "S", "n", "n", "N", "N", "f", "f", "F", "F", "c", "c", "C", "C", "k", "k", "K", "K",
		"down", "s", "up", "S", "right", "n", "left", "N", "home", "g start", "end", "g end")
	add(true, "g", "g", "b", "b", "x", "x", "w", "w", "W", "w!", "o", "o", "p", "p", "m", "m", "'", "'", "/", "/", `\`, "/!", ":", "")
	return all
}()

// Ask is what the screen asks of its carrier; the zero value asks nothing.
type Ask struct {
	// Do is a command for the session: one at a time; [Model.Shown] takes the result.
	Do string
	// Along asks for the focus's facts in Scene.Lines.
	Along bool
	// Stop ends the running command.
	Stop bool
	// Redraw redraws everything, Suspend leaves the terminal to the shell for a while, Quit ends.
	Redraw, Suspend, Quit bool
}

// New returns a screen with its first scene.
func New(name string, colours bool, s Scene, said string) Model {
	return Model{Name: name, Colours: colours, Found: true, scene: s, said: said}
}

// Press handles a key, by its name in bubbletea.
func (m Model) Press(key string) (Model, Ask) {
	switch {
	case key == "ctrl+l":
		return m, Ask{Redraw: true}
	case key == "ctrl+z":
		return m, Ask{Suspend: true}
	case m.asking != nil:
		return m.edit(key)
	case m.list != nil:
		if next, taken := m.leaf(key); taken {
			return next, Ask{}
		}
		m.list, m.top = nil, 0
	}
	m.said, m.wrong = "", false
	switch key {
	case "q":
		return m, Ask{Quit: true}
	case "esc", "ctrl+c":
		if m.doing != "" {
			m.waiting = nil
			return m, Ask{Stop: true}
		}
		m.said = "q ends"
		return m, Ask{}
	case "a":
		m.along = !m.along
		return m.do(".")
	case "M":
		m.still = !m.still
		m.said = "the mouse steps and goes to events; M leaves it to the terminal"
		if m.still {
			m.said = "the mouse is left to the terminal, which selects text; M takes it back"
		}
		return m, Ask{}
	case ".", "tab", "pgdown":
		return m.open("point", m.point()), Ask{}
	case "?":
		return m.open("keys", help()), Ask{}
	}
	c := commands[key]
	switch {
	case c == nil:
		m.said, m.wrong = fmt.Sprintf("%s does nothing here; ? lists the keys", key), true
		return m, Ask{}
	case c.asks:
		m.asking, m.text = c, ""
		return m, Ask{}
	}
	return m.do(c.do)
}

// Type enters a pasted text.
func (m Model) Type(text string) Model {
	if m.asking != nil {
		m.text += strings.Join(strings.Fields(text), " ")
	}
	return m
}

// Mouse tells whether the screen wants to know of the mouse.
func (m Model) Mouse() bool { return !m.still }

// wheelLines is how far a turn of the wheel scrolls a list.
const wheelLines = 3

// Wheel handles a turn of the wheel: it scrolls a list, or steps. A turn while a command runs is
// dropped, so that the screen stops when the wheel does.
func (m Model) Wheel(down bool) (Model, Ask) {
	switch {
	case m.list != nil:
		by := -wheelLines
		if down {
			by = wheelLines
		}
		m.top = min(max(m.top+by, 0), len(m.list)-1)
		return m, Ask{}
	case m.asking != nil || m.doing != "":
		return m, Ask{}
	case down:
		return m.Press("down")
	}
	return m.Press("up")
}

// Click handles a click on a cell of a screen of that size: on a fact, it goes there.
func (m Model) Click(x, y, width, height int) (Model, Ask) {
	seq := m.factAt(x, y, width, height)
	if seq == 0 || m.list != nil || m.asking != nil {
		return m, Ask{}
	}
	m.said, m.wrong = "", false
	return m.do(fmt.Sprintf("g %d", seq))
}

// edit handles a key while a text is typed.
func (m Model) edit(key string) (Model, Ask) {
	switch key {
	case "esc", "ctrl+c":
		m.asking = nil
	case "enter":
		c := m.asking
		m.asking = nil
		line := strings.TrimSpace(c.do + " " + m.text)
		if line == "" {
			return m, Ask{}
		}
		m.typed = maps.Clone(m.typed)
		if m.typed == nil {
			m.typed = map[string]string{}
		}
		m.typed[c.key] = m.text
		m.said, m.wrong = "", false
		return m.do(replay.Split(line)...)
	case "up":
		m.text = m.typed[m.asking.key]
	case "ctrl+u":
		m.text = ""
	case "backspace":
		if letters := []rune(m.text); len(letters) > 0 {
			m.text = string(letters[:len(letters)-1])
		}
	case "space":
		m.text += " "
	default:
		if letters := []rune(key); len(letters) == 1 {
			m.text += key
		}
	}
	return m, Ask{}
}

// longLine is as much of a line as any screen shows whole.
const longLine = 400

// open lays a list over the panes. Keys scroll by lines, so that long ones are broken.
func (m Model) open(what string, all []string) Model {
	m.list, m.what, m.top = nil, what, 0
	for _, line := range all {
		for _, r := range wrap(line, longLine, "") {
			m.list = append(m.list, r.text)
		}
	}
	return m
}

// leaf handles a key while a list lies over the panes; taken tells whether the key was for the
// list.
func (m Model) leaf(key string) (next Model, taken bool) {
	const page = 10
	switch key {
	case "down":
		m.top++
	case "up":
		m.top--
	case "pgdown", "space":
		m.top += page
	case "pgup":
		m.top -= page
	case "home":
		m.top = 0
	case "end":
		m.top = len(m.list) - 1
	case "esc", "enter", "q", "ctrl+c":
		m.list, m.top = nil, 0
		return m, true
	default:
		return m, false
	}
	m.top = min(max(m.top, 0), len(m.list)-1)
	return m, true
}

// do queues commands for the session.
func (m Model) do(lines ...string) (Model, Ask) {
	m.waiting = append(m.waiting[:len(m.waiting):len(m.waiting)], lines...)
	return m.next()
}

// next begins the next queued command, if none runs.
func (m Model) next() (Model, Ask) {
	if m.doing != "" || len(m.waiting) == 0 {
		return m, Ask{}
	}
	m.doing, m.waiting = m.waiting[0], m.waiting[1:]
	m.seen, m.of = 0, 0
	return m, Ask{Do: m.doing, Along: m.along}
}

// Shown takes the result of the command that ran. Commands queued behind a wrong one are dropped,
// as in a script.
func (m Model) Shown(s Scene) (Model, Ask) {
	did := m.doing
	if m.doing = ""; s.Frame != nil {
		m.scene = s
	}
	if s.Err != nil {
		m.said, m.wrong, m.waiting = s.Err.Error(), true, nil
		return m, Ask{}
	}
	a := s.Answer
	if a.Quit {
		return m, Ask{Quit: true}
	}
	if a.Frame != nil {
		m.Found = !a.None
	}
	m.wrong = a.None
	lines := wording.Answered(a, wording.PointClock(s.Frame.Time))
	switch {
	case len(a.Help) > 0:
		m = m.open("keys", help())
	case len(lines) > 1:
		m = m.open(did, lines)
	case len(lines) == 1:
		m.said = lines[0]
	}
	return m.next()
}

// Waiting tells whether a command runs.
func (m Model) Waiting() bool { return m.doing != "" }

// Seen sets the progress of the running command: messages seen, of how many.
func (m Model) Seen(seen, of int) Model {
	m.seen, m.of = seen, of
	return m
}

// help lists the keys.
func help() []string {
	lines := []string{"Small letters go forward, capitals back. Keys that take something ask for it: Enter does it, Esc leaves it.", ""}
	for _, c := range replay.Commands() {
		c.Key = strings.NewReplacer("w!", "W", "/!", `\`).Replace(c.Key)
		lines = append(lines, wording.ReplayCommand(&c))
	}
	return append(lines, "a                  list the events of the focus alone, or all", ": COMMAND          any command, or several with ; between them",
		"arrows             down s, up S, right n, left N; Home and End of the span", "M                  leave the mouse to the terminal, or take it back: the wheel steps, a click on an event goes there", ".  Tab  PageDown    the point as a page: all lines of its panes, and the message as it was written", "Esc, Ctrl-C        stop what runs", "Ctrl-L, Ctrl-Z     draw all anew, go to the shell")
}
