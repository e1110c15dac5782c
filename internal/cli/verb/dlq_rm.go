package verb

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/history"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// removal lists what `dlq rm` must remove from the list.
type removal struct {
	tasks    []task.ID
	messages []uint64
}

func (r *removal) String() string {
	switch {
	case len(r.messages) == 0:
		return wording.Plural(len(r.tasks), "task")
	case len(r.tasks) == 0:
		return wording.Plural(len(r.messages), "unreadable message")
	}
	return wording.Plural(len(r.tasks), "task") + " and " + wording.Plural(len(r.messages), "unreadable message")
}

// removed is the result for one dead letter.
type removed struct {
	Task   task.ID `json:"task,omitempty"`
	Seq    uint64  `json:"seq,omitempty"`
	Reason string  `json:"reason"` // why it was a dead letter
	Done   bool    `json:"dismissed"`
}

func (a *Commands) dlqRemove() *cobra.Command {
	var f look.ListFlags
	var all, unreadable, dry, yes bool
	var reason string
	var kind kinds
	c := &cobra.Command{
		Use: "rm ID|SEQ... | --all | --messages", Aliases: []string{"del", "delete", "dismiss"},
		Short: "Take dead letters off the list",
		Long: `Takes dead letters off the list: the named tasks and unreadable messages, with
--all the tasks that --kind and the filters choose, with --messages all unreadable
messages.

Nothing is deleted: an event in the log says who dismissed what, when and why. A task
stays as it ended, and "dlq requeue" gives it another life as before.`,
		Example: `  millrace dlq rm --all --job import --until 7d --dry-run
  millrace dlq rm 01JD6Z8V3M0QK4T7W2X9Y5ABCD 4711 --reason "a test"
  millrace dlq rm --messages --yes`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: a.CompleteTasks,
	}
	f.FilterFlags(c)
	kind.flag(c)
	c.Flags().BoolVar(&all, "all", false, "all tasks that the filters choose; --limit is then how many are read at once")
	c.Flags().BoolVar(&unreadable, messages, false, "all unreadable messages")
	c.Flags().BoolVar(&dry, "dry-run", false, "only list them")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().StringVar(&reason, "reason", "dismissed on the command line", "why, in `words`; the log keeps them")
	f.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.Read(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if (all || unreadable) == (len(args) > 0) {
			return term.Misuse(c, "name tasks or sequences of messages, or say --all or --messages")
		}
		if !all && c.Flags().Changed("kind") {
			return term.Misuse(c, "--kind goes with --all")
		}
		if _, err := namedLetters(args, connect.LaterID); err != nil {
			return err
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := f.Times(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		what, err := namedLetters(args, func(part string) (task.ID, error) { return a.TaskID(c.Context(), cl, part) })
		if err != nil {
			return err
		}
		if all {
			kind.choose(&f.Request)
			if what.tasks, err = a.dead(c.Context(), cl, f.Request); err != nil {
				return err
			}
		}
		if unreadable {
			if what.messages, err = a.unreadable(c.Context(), cl); err != nil {
				return err
			}
		}
		if !yes && !dry && len(what.tasks)+len(what.messages) > 0 {
			if err := a.Confirm(c, fmt.Sprintf("take %s off the list?", what)); err != nil {
				return err
			}
		}
		return a.dismiss(c.Context(), cl, what, reason, dry, f.JSON())
	}
	return c
}

// namedLetters parses sequences of messages, and ids of tasks, which resolve finds.
func namedLetters(args []string, resolve func(string) (task.ID, error)) (*removal, error) {
	what := &removal{}
	for _, arg := range args {
		if seq, err := strconv.ParseUint(arg, 10, 64); err == nil && seq > 0 && len(arg) < 26 {
			what.messages = append(what.messages, seq)
			continue
		}
		if err := connect.PlausibleID(arg); err != nil {
			return nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("%w, nor is it the sequence of a message", err)}
		}
		id, err := resolve(arg)
		if err != nil {
			return nil, err
		}
		what.tasks = append(what.tasks, id)
	}
	return what, nil
}

// unreadable returns the sequences of all unreadable messages.
func (a *Commands) unreadable(ctx context.Context, c *client.Client) ([]uint64, error) {
	asking, cancel := a.Asking(ctx)
	last, err := c.Last(asking)
	cancel()
	if err != nil {
		return nil, err
	}
	var seqs []uint64
	for r := (client.UnreadableRequest{Limit: 1000, AtLeast: last}); ; {
		asking, cancel := a.Asking(ctx)
		page, err := c.Unreadable(asking, r)
		cancel()
		if err != nil {
			return nil, err
		}
		for i := range page.Messages {
			seqs = append(seqs, page.Messages[i].Seq)
		}
		if r.Before = page.Next; r.Before == 0 {
			return seqs, nil
		}
	}
}

// dismiss removes letters from the list. A failure with one does not stop the others.
func (a *Commands) dismiss(ctx context.Context, c *client.Client, what *removal, reason string, dry, asJSON bool) error {
	done := []removed{}
	var errs []error
	batch := ""
	if len(what.tasks) > 1 && !dry {
		c = c.InBatch(events.NewID(c.Now()))
		batch = c.Batch()
	}
	tell := func(name string, r removed, err error) error {
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		r.Done = !dry
		if done = append(done, r); asJSON {
			return nil
		}
		said := "dismissed"
		if dry {
			said = "would be dismissed (" + r.Reason + ")"
		}
		_, err = fmt.Fprintf(a.Out, "%s %s\n", name, said)
		return err
	}
	for _, id := range what.tasks {
		asking, cancel := a.Asking(ctx)
		t, err := c.Task(asking, id)
		if err == nil && !dry {
			t, err = c.Dismiss(asking, id, reason)
		} else if err == nil {
			_, err = task.Decide(t, task.Dismiss{Reason: reason}, a.Now())
		}
		cancel()
		if err := tell(string(id), removed{Task: id, Reason: t.Reason}, err); err != nil {
			return err
		}
	}
	for seqs := range slices.Chunk(what.messages, dismissedAtOnce) {
		letters, faults := make([]removed, len(seqs)), make([]error, len(seqs))
		var g errgroup.Group
		for i, seq := range seqs {
			g.Go(func() error {
				letters[i], faults[i] = a.dismissMessage(ctx, c, seq, reason, dry)
				return nil
			})
		}
		_ = g.Wait() // only letters fail
		for i, seq := range seqs {
			if err := tell(strconv.FormatUint(seq, 10), letters[i], faults[i]); err != nil {
				return err
			}
		}
	}
	if asJSON {
		errs = append(errs, a.WriteJSON(done))
	} else if batch != "" && len(done) > 0 {
		a.Note("batch %s", batch)
	}
	if errs = present(errs); len(errs) == 0 {
		return nil
	}
	return term.AllFaults(errs)
}

// dismissedAtOnce is how many messages are dismissed concurrently: each waits for the server three
// times.
const dismissedAtOnce = 16

// dismissMessage removes an unreadable message from the list or, with dry, tells whether that would
// work.
func (a *Commands) dismissMessage(ctx context.Context, c *client.Client, seq uint64, reason string, dry bool) (removed, error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	r, err := history.Of(a.App).At(asking, c, seq)
	switch {
	case err != nil:
	case r.Unreadable() == "":
		err = fmt.Errorf("message %d: %w", seq, client.ErrReadable)
	case !dry:
		err = c.DismissMessage(asking, seq, reason)
	}
	return removed{Seq: seq, Reason: r.Unreadable()}, err
}
