package history

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"millrace/history/replay"
)

const (
	// reach is how many facts on each side of the point a scene has: more than a terminal has
	// lines.
	reach = 200
	// fine is into how many cells a scene divides the span: more than a terminal has columns.
	fine = 1000
	// progressEvery is how often a command's progress is shown.
	progressEvery = 100 * time.Millisecond
)

// Terminal is where the screen is.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Colours bool
}

// ErrGone is that the terminal has vanished.
var ErrGone = errors.New("the terminal is gone")

// Run shows a session on a terminal until the user ends it, or ctx. It leaves the terminal as it
// was, whatever happens. It tells whether the last search succeeded. The error is that of ctx, or
// [ErrGone].
func Run(ctx context.Context, on Terminal, x *replay.Session, name, greeting string) (found bool, err error) {
	return run(ctx, on, x, name, greeting)
}

func run(ctx context.Context, on Terminal, x *replay.Session, name, greeting string, more ...tea.ProgramOption) (found bool, err error) {
	first, err := scene(ctx, x, false)
	if err != nil {
		return false, err
	}
	within, end := context.WithCancelCause(ctx)
	s := &screen{ctx: within, session: x, model: New(name, on.Colours, first, greeting), stop: func() {}, idle: make(chan struct{}, 1)}
	s.idle <- struct{}{}
	options := append([]tea.ProgramOption{tea.WithContext(within), tea.WithInput(untilGone(on.In, func() { end(ErrGone) })), tea.WithOutput(on.Out), tea.WithoutSignalHandler()}, more...)
	_, err = tea.NewProgram(s, options...).Run()
	if within.Err() != nil {
		err = context.Cause(within)
	}
	end(nil)
	<-s.idle // the session is the caller's again
	return s.model.Found, err
}

// file is what bubbletea needs of a terminal.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// untilGone returns the input, and calls gone at its end. Bubbletea takes that for a user who presses
// no more keys; but the input of a terminal ends only with the terminal.
func untilGone(in io.Reader, gone func()) io.Reader {
	if f, ok := in.(file); ok {
		return goingFile{f, gone}
	}
	return going{in, gone}
}

type going struct {
	io.Reader
	gone func()
}

func (g going) Read(p []byte) (int, error) { return read(g.Reader, p, g.gone) }

type goingFile struct {
	file
	gone func()
}

func (g goingFile) Read(p []byte) (int, error) { return read(g.file, p, g.gone) }

func read(in io.Reader, p []byte, gone func()) (int, error) {
	n, err := in.Read(p)
	if err != nil {
		gone()
	}
	return n, err
}

// screen carries keys to a model, and its commands to a session. Only one command at a time uses
// the session.
type screen struct {
	ctx           context.Context // bubbletea has no other way to its commands
	session       *replay.Session
	idle          chan struct{} // full while no command uses the session
	model         Model
	stop          context.CancelFunc // of the running command
	width, height int
	ticks         bool // a tick will come
}

// tick asks for the progress of the running command.
type tick struct{}

// Init implements [tea.Model].
func (s *screen) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var ask Ask
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		s.model, ask = s.model.Press(msg.String())
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelUp || msg.Button == tea.MouseWheelDown {
			s.model, ask = s.model.Wheel(msg.Button == tea.MouseWheelDown)
		}
	case tea.MouseClickMsg:
		if msg.Button == tea.MouseLeft {
			s.model, ask = s.model.Click(msg.X, msg.Y, s.width, s.height)
		}
	case tea.PasteMsg:
		s.model = s.model.Type(msg.Content)
	case Scene:
		s.stop()
		s.model, ask = s.model.Shown(msg)
	case tick:
		if s.ticks = s.model.Waiting(); !s.ticks {
			return s, nil
		}
		s.model = s.model.Seen(s.session.Progress())
		return s, later()
	}
	return s, s.carry(ask)
}

// carry does what the model asks.
func (s *screen) carry(ask Ask) tea.Cmd {
	switch {
	case ask.Quit:
		s.stop()
		return tea.Quit
	case ask.Stop:
		s.stop()
	case ask.Redraw:
		return tea.ClearScreen
	case ask.Suspend:
		return tea.Suspend
	case ask.Do != "":
		ctx, cancel := context.WithCancel(s.ctx)
		s.stop = cancel
		do := func() tea.Msg { return s.do(ctx, ask) }
		if s.ticks {
			return do
		}
		s.ticks = true
		return tea.Batch(do, later())
	}
	return nil
}

func later() tea.Cmd {
	return tea.Tick(progressEvery, func(time.Time) tea.Msg { return tick{} })
}

// do runs a command of the session, and reads the new scene.
func (s *screen) do(ctx context.Context, ask Ask) tea.Msg {
	select {
	case <-s.idle:
	case <-s.ctx.Done(): // it is over
		return nil
	}
	defer func() { s.idle <- struct{}{} }()
	answer, did := s.session.Do(ctx, ask.Do)
	if ctx.Err() != nil && did != nil {
		did = errors.New("stopped: " + ask.Do)
	}
	now, err := scene(s.ctx, s.session, ask.Along)
	now.Answer, now.Err = answer, errors.Join(did, err)
	return now
}

// scene returns what a session shows at its point.
func scene(ctx context.Context, x *replay.Session, along bool) (Scene, error) {
	f, err := x.Frame(ctx)
	if err != nil {
		return Scene{}, err
	}
	return Scene{Frame: f, Lines: x.Around(reach, along), Span: x.Overview(fine), Marks: x.Marks(), Breaks: x.Breaks()}, nil
}

// View implements [tea.Model].
func (s *screen) View() tea.View {
	v := tea.NewView("")
	if s.width > 0 {
		v = tea.NewView(View(s.model, s.width, s.height))
	}
	v.AltScreen = true
	if s.model.Mouse() {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}
