// Package connect lets a command find its server, connect to it and ask it about a task or a past
// moment, within a time.
//
// [NewProgram] makes what the programs that people type have in common: millrace, and those that it
// starts in its place, which it finds here, as they find it.
package connect

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// App is one run of the command: its streams and the flags that all commands share.
type App struct {
	*term.Streams
	// Clock is this process's clock; it follows the log's time once the command is connected.
	Clock *request.Clock
	Now   func() time.Time
	// Hurry is what a second signal asks for.
	Hurry *Hurry

	Conn   Connection // --server and the like
	Config string     // --config
	Dev    bool       // the server is a `millrace dev` of this machine
	// Inside is the incident file that the command reads instead of a server; nil for none.
	Inside *Inside
	// Typed is the command, as its name in the tree of commands; "" before it runs.
	Typed string
	// lacks is what a user is told who may not read the log; nil for one who may.
	lacks *rights.Lacking
	// reached is the server connected to; nil if there is none.
	reached *client.Target
	// store is the connected client's store; nil if there is none.
	store *jet.Store
	// silent is why writes got no answer, as far as this command has found out; nil if unknown.
	silent *atomic.Pointer[error]
}

// New returns a run of the command with a clock.
func New(in io.Reader, out, errs io.Writer, clock *request.Clock) *App {
	return &App{Streams: term.NewStreams(in, out, errs), Clock: clock, Now: clock.Now, Hurry: &Hurry{Now: make(chan struct{})}, silent: new(atomic.Pointer[error])}
}

// Report prints an error for people and returns its exit code.
func (a *App) Report(err error) int {
	f := term.FaultOf(err)
	if f == nil {
		return term.ExitOK
	}
	if f.Err != nil {
		fmt.Fprintf(a.Errs, "millrace: %s\n", term.Message(f.Err.Error()))
	}
	if f.Hint != "" {
		fmt.Fprintln(a.Errs, term.Message(f.Hint))
	}
	return f.Code
}

// LoadSettings adds up the settings; flags is nil for a command without settings flags.
func (a *App) LoadSettings(flags *settings.Flags, profile string) (settings.Values, map[string]settings.Origin, error) {
	return settings.Load(a.Config, flags, profile)
}

// Settings returns the settings that this command was given, and else the defaults: for a `millrace
// dev` those of its profile, for an incident file those that it names. What a server was given may
// differ: [App.InForce] knows.
func (a *App) Settings() (settings.Values, error) {
	profile := settings.Prod
	if a.Dev {
		profile = settings.Dev
	}
	s, _, err := a.LoadSettings(nil, profile)
	if err == nil && a.Inside != nil {
		err = s.Take(a.Inside.Settings)
	}
	return s, err
}

// Printing returns the same run with other outputs; its own streams stay as they are.
func (a *App) Printing(out, errs io.Writer) *App {
	other, streams := *a, *a.Streams
	streams.Out, streams.Errs = out, errs
	other.Streams = &streams
	return &other
}
