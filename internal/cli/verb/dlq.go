package verb

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/history"
	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// Letters is millrace dlq.
func (a *Commands) Letters() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "dlq", Aliases: []string{"dead"},
		Short: "Dead letters: tasks given up or out of retries, and unreadable messages",
		Long: `Dead letters, of three kinds:

  given-up   tasks that Millrace gave up: abnormal (expired, lost, poison, unplaceable)
  used-up    tasks in error whose retries are used up; a task without retries is none
  messages   unreadable messages in the log

None of them is lost: "dlq requeue" gives a task another life, and a message stays in
the log as it was written. "dlq rm" takes them off the list; the log records who did so.`,
		Example: `  millrace dlq ls --since 24h
  millrace dlq ls --kind used-up
  millrace dlq requeue --all --job backup --dry-run
  millrace dlq show ID
  millrace dlq rm --all --until 30d`,
	})
	c.AddCommand(a.dlqList(), a.dlqShow(), a.dlqRequeue(), a.dlqRemove())
	return c
}

// kinds is the flag --kind: which dead letters a command is for.
type kinds struct{ settings.Choice }

// The kinds besides those of tasks.
const (
	everyKind = "all"
	messages  = "messages"
)

func (k *kinds) flag(c *cobra.Command, also ...string) {
	k.Choice = settings.Choice{Value: everyKind, Of: append([]string{everyKind}, also...)}
	for _, letter := range task.Letters() {
		k.Of = append(k.Of, string(letter))
	}
	c.Flags().Var(&k.Choice, "kind", "which: abnormal tasks (given-up), tasks whose retries are used up (used-up), or all")
}

// choose narrows a request to the tasks of the kind, and tells whether there are any.
func (k *kinds) choose(r *client.ListRequest) (tasks bool) {
	r.Dead = true
	if state := task.Letter(k.Value).State(); state != task.Unknown {
		r.States = []task.State{state}
	}
	return k.Value != messages
}

// messages tells whether there are messages of the kind.
func (k *kinds) messages() bool { return k.Value == everyKind || k.Value == messages }

func (a *Commands) dlqList() *cobra.Command {
	var f look.ListFlags
	var kind kinds
	var names bool
	c := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List dead letters; needs a millrace server",
		Long: `Lists dead letters, without dismissed ones ("dlq rm"): tasks that are abnormal, tasks in
error whose retries are used up, and unreadable messages. --kind chooses one kind,
filters choose tasks. --names prints the ids of tasks and the sequences of messages.`,
		Args: settings.Takes(0, 0, ""),
	}
	f.FilterFlags(c)
	kind.flag(c, messages)
	c.Flags().BoolVar(&names, "names", false, "print nothing but ids and sequences, of all pages")
	f.PageFlags(c.Flags())
	sight := a.AtFlag(c, connect.Then{Lacks: []string{"heartbeats"}})
	f.Flags(c)
	c.MarkFlagsMutuallyExclusive("at", "suspect")
	c.MarkFlagsMutuallyExclusive("at", "names")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.Read(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := look.Of(a.App).GoOn(c.Context(), cl, &f); err != nil {
			return err
		}
		if err := f.Times(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if names {
			return a.deadNames(c.Context(), cl, f.Request, &kind)
		}
		s, err := sight(c.Context(), cl)
		if err != nil {
			return err
		}
		page, unread, err := a.deadAt(c.Context(), cl, f.Request, &kind, &s)
		if err != nil {
			return err
		}
		if f.JSON() {
			if page.Tasks == nil {
				page.Tasks = []task.Task{}
			}
			return a.WriteJSON(struct {
				client.ListPage
				Messages []client.Unreadable `json:"messages"`
				At       *connect.ShownPoint `json:"at,omitempty"`
			}{page, unread.Messages, s.Past})
		}
		if kind.Value != messages {
			t := look.TaskTable(&page, s.Now())
			s.Mark(&t, a.Now())
			if err := a.Print(t); err != nil || len(unread.Messages) == 0 {
				return err
			}
		}
		return a.Print(unreadableTable(unread.Messages))
	}
	return c
}

// deadNames prints the ids of the tasks that a request chooses, and the sequences of messages.
func (a *Commands) deadNames(ctx context.Context, cl *client.Client, r client.ListRequest, kind *kinds) error {
	var names []string
	if kind.choose(&r) {
		ids, err := a.dead(ctx, cl, r)
		if err != nil {
			return err
		}
		for _, id := range ids {
			names = append(names, string(id))
		}
	}
	if kind.messages() {
		seqs, err := a.unreadable(ctx, cl)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			names = append(names, strconv.FormatUint(seq, 10))
		}
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(a.Out, name); err != nil {
			return err
		}
	}
	return nil
}

// deadAt asks for the dead letters that a request chooses, as of a sight.
func (a *Commands) deadAt(ctx context.Context, cl *client.Client, r client.ListRequest, kind *kinds, s *connect.Sight) (page client.ListPage, unread client.UnreadablePage, err error) {
	tasks := kind.choose(&r)
	asked := client.UnreadableRequest{Limit: r.Limit}
	if s.Past != nil && tasks {
		page, err = connect.Look(ctx, a.App, cl, s, func(ctx context.Context, q connect.Question) (client.ListPage, error) {
			then := r
			then.At = q.At
			return cl.List(ctx, then)
		})(ctx)
	}
	ctx, cancel := a.Asking(ctx)
	defer cancel()
	if s.Past == nil {
		if r.AtLeast, err = cl.Last(ctx); err != nil {
			return page, unread, err
		}
		asked.AtLeast = r.AtLeast
		if tasks {
			page, err = cl.List(ctx, r)
		}
	} else {
		asked.At = strconv.FormatUint(s.Past.Seq, 10)
	}
	if err == nil && kind.messages() {
		unread, err = cl.Unreadable(ctx, asked)
	}
	return page, unread, err
}

func unreadableTable(messages []client.Unreadable) term.Table {
	t := term.List(messages, wording.MessageColumns...)
	t.Foot = []string{wording.Plural(len(messages), "unreadable message")}
	return t
}

func (a *Commands) dlqShow() *cobra.Command {
	show, message := look.Of(a.App).Why(), history.Of(a.App).Show()
	c := &cobra.Command{
		Use: "show ID|SEQ", Aliases: []string{"view", "info"},
		Short: "Say why a task is dead, or print a message by its sequence",
		Args:  settings.Takes(1, 1, "task id or sequence"), ValidArgsFunction: a.CompleteTasks,
	}
	var asJSON settings.Output
	var at string
	asJSON.Flags(c)
	c.Flags().StringVar(&at, "at", "", connect.AtUsage+"; of a task")
	c.RunE = func(c *cobra.Command, args []string) error {
		target := show
		if _, err := strconv.ParseUint(args[0], 10, 64); err == nil && len(args[0]) < 26 {
			target = message
		}
		if c.Flags().Changed("at") {
			if target == message {
				return term.Misuse(c, "--at goes with a task: a message never changes")
			}
			if err := a.Moments(c, at); err != nil {
				return err
			}
			if err := target.Flags().Set("at", at); err != nil {
				return err
			}
		}
		if asJSON.JSON() {
			if err := target.Flags().Set("output", "json"); err != nil {
				return err
			}
		}
		target.SetContext(c.Context())
		err := target.RunE(target, args)
		if wrong := (*term.Fault)(nil); errors.As(err, &wrong) && wrong.Code == term.ExitUsage {
			return term.Misuse(c, "%w", wrong.Err) // not with the usage of the other command
		}
		return err
	}
	return c
}

func (a *Commands) dlqRequeue() *cobra.Command {
	var f look.ListFlags
	var all, dry bool
	var reason string
	var kind kinds
	c := &cobra.Command{
		Use: "requeue ID... | --all", Aliases: []string{"retry"},
		Short: "Give dead tasks another life",
		Long: `Gives tasks that are dead letters another life, with all their retries: the named
ones, dismissed or not, or with --all those on the list that --kind and the filters
choose. --dry-run only lists them.`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: a.CompleteTasks,
	}
	f.FilterFlags(c)
	kind.flag(c)
	c.Flags().BoolVar(&all, "all", false, "all tasks that the filters choose; --limit is then how many are read at once")
	c.Flags().BoolVar(&dry, "dry-run", false, "only list the tasks")
	c.Flags().StringVar(&reason, "reason", "requeued on the command line", "why, in `words`; the log keeps them")
	f.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.Read(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if all == (len(args) > 0) {
			return term.Misuse(c, "name the tasks, or say --all")
		}
		if !all && c.Flags().Changed("kind") {
			return term.Misuse(c, "--kind goes with --all")
		}
		kind.choose(&f.Request)
		return a.WithTasks(func(ctx context.Context, cl *client.Client, ids []task.ID) error {
			if all {
				err := f.Times(c, a.Now())
				if err != nil {
					return term.Misuse(c, "%w", err)
				}
				if ids, err = a.dead(ctx, cl, f.Request); err != nil {
					return err
				}
			}
			return a.requeue(ctx, cl, ids, reason, dry, f.JSON())
		})(c, args)
	}
	return c
}

// dead returns the tasks that a request chooses, from all pages.
func (a *Commands) dead(ctx context.Context, c *client.Client, r client.ListRequest) ([]task.ID, error) {
	asking, cancel := a.Asking(ctx)
	last, err := c.Last(asking)
	cancel()
	if err != nil {
		return nil, err
	}
	r.AtLeast = last
	var ids []task.ID
	for {
		asking, cancel := a.Asking(ctx)
		page, err := c.List(asking, r)
		cancel()
		if err != nil {
			return nil, err
		}
		for i := range page.Tasks {
			ids = append(ids, page.Tasks[i].ID)
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return ids, nil
		}
	}
}

// requeue reopens dead letters, and leaves other tasks alone.
func (a *Commands) requeue(ctx context.Context, c *client.Client, ids []task.ID, reason string, dry, asJSON bool) error {
	done := []task.Task{}
	var errs []error
	for _, id := range ids {
		asking, cancel := a.Asking(ctx)
		t, err := c.Task(asking, id)
		switch {
		case err != nil:
		case t.Letter() == "":
			err = &term.Fault{Code: term.ExitRefused, Err: fmt.Errorf("task %s is %s, no dead letter", id, t.State), Hint: term.Hint("`millrace task retry` gives any task that has ended another life")}
		case !dry:
			t, err = c.Retry(asking, id, reason)
		}
		cancel()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if done = append(done, t); asJSON {
			continue
		}
		said := t.State.String()
		if dry {
			said = "would be requeued (" + t.Reason + ")"
		}
		if _, err := fmt.Fprintf(a.Out, "%s %s\n", id, said); err != nil {
			return err
		}
	}
	if asJSON {
		errs = append(errs, a.WriteJSON(done))
	}
	if errs = present(errs); len(errs) == 0 {
		return nil
	}
	return term.AllFaults(errs)
}

func present(errs []error) (some []error) {
	for _, err := range errs {
		if err != nil {
			some = append(some, err)
		}
	}
	return some
}
