// Package reach is how a command finds its server and asks it: about which task, of which moment, for how long.
package reach

import (
	"fmt"
	"io"
	"time"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/settings"
	"millrace/cmd/millrace/term"
	"millrace/logclock"
)

// App is one run of the command: its streams and what the flags of all commands say.
type App struct {
	*term.Streams
	// Clock is this process's, and now the time by it: the log's, once the command is connected.
	Clock *logclock.Clock
	Now   func() time.Time
	// Hurry is what a second signal asks for.
	Hurry *Hurry

	Conn   Connection // --server and the like
	Config string     // --config
	Dev    bool       // what was connected to is a `millrace dev` of this machine
	// Inside is the incident file that the command looks at in place of a server; nil for none.
	Inside *Inside
	// reached is what was connected to; nil if nothing was.
	reached *client.Target
}

// New is a run of the command by a clock.
func New(in io.Reader, out, errs io.Writer, clock *logclock.Clock) *App {
	return &App{Streams: term.NewStreams(in, out, errs), Clock: clock, Now: clock.Now, Hurry: &Hurry{Now: make(chan struct{})}}
}

// Report prints an error for people and returns the exit code it stands for.
func (a *App) Report(err error) int {
	f := exit.Of(err)
	if f == nil {
		return exit.OK
	}
	if f.Err != nil {
		fmt.Fprintf(a.Errs, "millrace: %v\n", f.Err)
	}
	if f.Hint != "" {
		fmt.Fprintln(a.Errs, f.Hint)
	}
	return f.Code
}

// LoadSettings adds up the settings; flags is nil for a command that has none for them.
func (a *App) LoadSettings(flags *settings.Flags, profile string) (settings.Values, map[string]settings.Origin, error) {
	return settings.Load(a.Config, flags, profile)
}

// Settings are those that hold where the server runs that this command talks to: of a `millrace dev`, those of its profile; in an
// incident file, those that it names.
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

// Printing is the same run, which prints elsewhere; its own streams stay as they are.
func (a *App) Printing(out, errs io.Writer) *App {
	other, streams := *a, *a.Streams
	streams.Out, streams.Errs = out, errs
	other.Streams = &streams
	return &other
}
