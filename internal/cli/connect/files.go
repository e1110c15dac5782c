package connect

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/files"
	"millrace/service/client"
	"millrace/task/job"
)

// PushFiles pushes a folder, with a line of progress and the notes that there are.
func (a *App) PushFiles(c *cobra.Command, cl *client.Client, p client.FilesPush) (client.FilesPushed, error) {
	moving := a.moving("sent")
	p.Each = moving.tell
	done, err := cl.PushFiles(c.Context(), p)
	moving.stop()
	for _, n := range done.Notes {
		a.Note("%s", term.Printable(n))
	}
	return done, err
}

// PullFiles fetches a version into a directory and prints the result.
func (a *App) PullFiles(c *cobra.Command, cl *client.Client, what string, d files.Digest, dir string) error {
	v, err := cl.Store().Version(c.Context(), d)
	if err != nil {
		return err
	}
	m, err := cl.FilesManifest(c.Context(), v)
	if err != nil {
		return err
	}
	moving := a.moving("written")
	done, err := cl.PullFiles(c.Context(), m, dir, moving.tell)
	moving.stop()
	if err != nil {
		return err
	}
	a.Note("%s is in %s: %s, %s; %s fetched", what, dir, wording.Plural(len(m.Entries), "file"), wording.ByteCount(m.Size()), wording.ByteCount(done.Bytes))
	return nil
}

// Folder says what is wrong with a folder that was typed, if it is none.
func Folder(c *cobra.Command, name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return settings.FileFault(err)
	case !info.IsDir():
		return term.Misuse(c, "%s is a file, want a folder", name)
	}
	return nil
}

// moving shows the progress of a large transfer, on a terminal.
type moving struct {
	w    io.Writer
	verb string
	last int64
}

func (a *App) moving(verb string) *moving {
	m := &moving{verb: verb}
	if term.Terminal(a.Errs) {
		m.w = term.Unfiltered(a.Errs)
	}
	return m
}

// tell is called by one goroutine at a time.
func (m *moving) tell(done, of int64) {
	if m.w == nil || done-m.last < 4<<20 && done < of {
		return
	}
	m.last = done
	fmt.Fprintf(m.w, "\r%s of %s %s ", wording.ByteCount(done), wording.ByteCount(of), m.verb)
}

func (m *moving) stop() {
	if m.w != nil && m.last > 0 {
		fmt.Fprintf(m.w, "\r%s\r", strings.Repeat(" ", 60))
	}
}

// FilesFor returns the files that `run --files` names; a folder is pushed.
func (a *App) FilesFor(c *cobra.Command, cl *client.Client, named string) (*job.Files, error) {
	if !files.IsFolder(named) {
		return &job.Files{Bundle: named}, nil
	}
	if err := Folder(c, named); err != nil {
		return nil, err
	}
	if err := cl.May(""); err != nil { // the service takes files over HTTP alone
		return nil, err
	}
	p, err := a.PushFiles(c, cl, client.FilesPush{Dir: named})
	if err != nil {
		return nil, err
	}
	return &job.Files{Bundle: string(p.Digest)}, nil
}
