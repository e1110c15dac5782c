package connect

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/client"
)

// Inside is an incident file, or an archive with the log behind it, prepared for commands: behind a
// server of its own, which accepts no changes. A command without a moment looks at the last one, for a
// file has no present.
type Inside struct {
	File string
	// Archive tells that it is an archive: it has all that the log had, from its beginning on.
	Archive bool
	URL     string
	// From and To bound what the file covers.
	From, To view.Point
	// Settings are those by which duties are judged.
	Settings map[string]string
}

// what is its name in words.
func (i *Inside) what() string {
	if i.Archive {
		return "archive"
	}
	return "incident file"
}

// Partial tells whether it is only a part of what the log had in its span.
func (i *Inside) Partial() bool { return i != nil && !i.Archive }

func (i *Inside) target(a *App) client.Target {
	return client.Target{Name: i.what() + " " + i.File, Options: client.Options{Server: i.URL, Name: "millrace command line", Log: a.Logger(), Clock: a.Clock, Timeout: a.Conn.Timeout}}
}

// moment returns a command's moment, or by default the file's last one.
func (i *Inside) moment(at string) string {
	if i == nil || at != "" {
		return at
	}
	return strconv.FormatUint(i.To.Seq, 10)
}

// tells refuses a moment that the file does not cover: it holds only what lived in its span.
func (i *Inside) tells(flag string, m view.Moment) error {
	if i == nil || m == (view.Moment{}) {
		return nil
	}
	before := m.Seq > 0 && m.Seq < i.From.Seq || m.Seq == 0 && m.At.Before(i.From.At)
	if !before && m.Seq <= i.To.Seq {
		return nil
	}
	if i.To.Seq < i.From.Seq {
		return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%s: what is left of the %s ends at #%d, before its span, which begins at #%d", flag, i.what(), i.To.Seq, i.From.Seq)}
	}
	return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%s: the %s tells of #%d to #%d, %s to %s", flag, i.what(), i.From.Seq, i.To.Seq, i.From.At.Local().Format(timeForm), i.To.At.Local().Format(timeForm))}
}

const timeForm = "2006-01-02 15:04:05.000"

// Explain adds to an error what the file has to do with it.
func (i *Inside) Explain(err error) error {
	f := term.FaultOf(err)
	if i == nil || f == nil || f.Err == nil {
		return err
	}
	is := *f
	switch {
	case f.Code == term.ExitNotFound && !strings.Contains(f.Err.Error(), "--at"):
		is.Hint = term.Hint("the %s holds only what lived from #%d to #%d", i.what(), i.From.Seq, i.To.Seq)
	case strings.Contains(f.Err.Error(), "sealed") && i.Archive:
		is = term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("an archive is only looked at: %w", f.Err)}
	case strings.Contains(f.Err.Error(), "sealed"):
		is = term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("an incident file is only looked at: %w", f.Err), Hint: term.Hint("`millrace incident import` puts it into a `millrace dev` to go on from there")}
	}
	return &is
}
