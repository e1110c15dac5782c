package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/cli/serve"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
)

// Backup is millrace backup.
func (a *Commands) Backup() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup DIR",
		Short: "Write all that the NATS server holds of Millrace into a folder, while everything runs",
		Long: `Writes a backup of all streams, with sequences and times, into a new or empty folder: the log, output, records,
files, checkpoints, definitions and timers. Whatever was acknowledged before it began is in it. Nothing stops
meanwhile. "millrace restore" makes an installation of it.

The folder has SHA256SUMS as soon as it is whole; "sha256sum -c SHA256SUMS" checks it, too. It has secrets as
the streams have them, so only this user may read it. On a NATS server with permissions this takes the user
of "millrace server".`,
		Example: `  millrace backup /backup/$(date +%F)
  millrace restore /backup/2026-11-28 --check`,
		Args: settings.Takes(1, 1, "directory"),
	}
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, args []string) error {
		m, err := streams.Save(ctx, cl.Store().NC, args[0], wording.ThisBuild().Version, cl.Now, a.saySaved)
		if errors.Is(err, streams.ErrOccupied) {
			return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("name a folder that is not there yet; one without SHA256SUMS is a backup that was cut off, and can go")}
		}
		if err != nil {
			return fmt.Errorf("%w; there is no backup", err)
		}
		a.Note("%s has everything up to #%d, in %v", args[0], lastOf(m), m.Ended.Sub(m.Began).Round(time.Millisecond))
		return nil
	})
	return c
}

// Restore is millrace restore.
func (a *Commands) Restore() *cobra.Command {
	var dir string
	var check bool
	c := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make an installation of a backup, on a NATS server that holds no Millrace",
		Long: `Reads a backup whole, and makes its streams on the NATS server or cluster that --server, --context or $NATS_URL
names, in whatever account; or, with --data, in a new data directory for "millrace server --data" or "millrace
dev --data". Sequences, times, timers and the places of queues stay, and the read model is made again. The
setting "replicas" says on how many NATS servers each message is to lie.

End the servers and workers of the old installation first. A worker that goes on is refused what it says of
tasks that others have taken over since.

A damaged backup is refused before anything is written, and so is a NATS server that holds Millrace. Until the
restore is complete, nothing can open the log. If it is cut off, run the same command again: it begins anew.
On a NATS server with permissions this takes the user of "millrace server".`,
		Example: `  millrace restore /backup/2026-11-28 --check
  MILLRACE_REPLICAS=3 millrace restore /backup/2026-11-28 --server nats://n1:4222
  millrace restore /backup/2026-11-28 --data ./new`,
		Args: settings.Takes(1, 1, "directory"),
	}
	c.Flags().StringVar(&dir, "data", "", "new `directory` for the data")
	c.Flags().BoolVar(&check, "check", false, "only read the backup, and say what it holds")
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := a.Target()
		if err != nil {
			return err
		}
		if !check && dir == "" && !t.Chosen() {
			return term.Misuse(c, "--data is missing: a directory that `millrace server --data` or `millrace dev --data` is to go on with; or --server, for a NATS server that holds no Millrace")
		}
		s, _, err := a.LoadSettings(nil, settings.Prod)
		if err != nil {
			return err
		}
		m, err := streams.ReadBackup(args[0])
		switch {
		case errors.Is(err, streams.ErrDamaged):
			return &term.Fault{Code: term.ExitUsage, Err: err, Hint: term.Hint("nothing was written; take another backup")}
		case errors.Is(err, fs.ErrNotExist):
			return &term.Fault{Code: term.ExitNotFound, Err: err, Hint: term.Hint("`millrace backup DIR` writes a backup")}
		case err != nil:
			return err
		}
		if check {
			for _, is := range m.Streams {
				a.saySaved(is)
			}
			a.Note("%s is whole: what was acknowledged until %s, up to #%d, by millrace %s, from NATS server %s with replicas %d",
				args[0], m.Began.Format(time.RFC3339), lastOf(m), m.Program, m.NATS, m.Replicas)
			return nil
		}
		var is streams.Restored
		where := dir
		restore := func(ctx context.Context, nc *nats.Conn) (err error) {
			is, err = streams.Restore(ctx, nc, args[0], m, s.Layout(), a.saySaved)
			return err
		}
		if dir == "" {
			where = t.Name
			err = serve.Of(a.App).RestoreTo(c.Context(), t, s, restore)
		} else {
			err = serve.Of(a.App).RestoreDir(c.Context(), dir, s, restore)
		}
		switch {
		case errors.Is(err, streams.ErrThere):
			return &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("%s: %w", t.Name, err), Hint: term.Hint("a backup goes into a server that has none: name a directory that is not there yet with --data, or a NATS server or account without Millrace, where no `millrace server` runs")}
		case errors.Is(err, embed.ErrFilled), errors.Is(err, embed.ErrLocked):
			return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("a backup goes into a server that has none: name a directory that is not there yet")}
		case errors.As(err, new(*request.Denied)):
			return err
		case err != nil:
			f := *term.FaultOf(err)
			if f.Err != nil {
				f.Err, f.Hint = fmt.Errorf("%w; nothing can open what is there", f.Err), term.Hint("see to the reason, and run the same command again: it begins anew")
			}
			return &f
		}
		if is.Again {
			a.Note("a restore was cut off here; what it had made was removed first")
		}
		if is.Ungapped {
			a.Note("the NATS server of this backup is older than 2.15, so sequences go on without a gap: make sure that no worker of the old installation lives")
		}
		next := fmt.Sprintf("`millrace server --data %s` or `millrace dev --data %s` goes", dir, dir)
		if dir == "" {
			next = "`millrace server` on it goes"
		}
		a.Note("%s holds the log up to #%d; %s on from #%d", where, lastOf(m), next, is.From)
		return nil
	}
	return c
}

// saySaved says what was done with a stream.
func (a *Commands) saySaved(is streams.SavedStream) {
	messages := "messages"
	if is.Messages >= 0 {
		messages = wording.Plural(int(is.Messages)+is.Later, "message")
	}
	a.Note("%s: %s up to #%d, %s", is.Name, messages, is.Last, humanize.Bytes(uint64(is.Bytes)))
}

// lastOf is where the log of a backup ends.
func lastOf(m streams.Manifest) uint64 {
	for _, is := range m.Streams {
		if is.Name == names.LogStream {
			return is.Last
		}
	}
	return 0
}
