package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/placement"
)

// Tasks returns the commands below millrace task that show tasks.
func (a *Commands) Tasks() []*cobra.Command {
	return []*cobra.Command{a.taskList(), a.taskShow(), a.taskTree(), a.Why(), a.taskDiff(), a.taskEvents(), a.taskArtifacts(), a.taskAttempts(), a.taskTrace()}
}

// ListFlags are the flags of `millrace task ls`.
type ListFlags struct {
	settings.Output
	States     []string
	labels     []string
	consistent string
	after      string // the last task of the previous page
	query      string
	names      bool
	all        bool // all pages
	watch      bool
	sight      func(context.Context, *client.Client) (connect.Sight, error)
	Request    client.ListRequest
}

// lastWrite is the value of --consistent without a sequence.
const lastWrite = "last"

func (a *Commands) taskList() *cobra.Command {
	var f ListFlags
	c := &cobra.Command{
		Use: "ls [QUERY]", Aliases: []string{"list"},
		Short: "List tasks; needs a millrace server",
		Long: `Lists tasks from the read model of a millrace server. All filters must hold. QUERY has the same filters in
one line, in the language of the pages and the service: terms such as state:error job:backup label:env=prod
since:2h is:dead, and text.
A task is suspect when its node has vanished: the message says since when,
and by when the task is moved. The last line names the sequence of the log that the list reflects.

With --at the server answers from its index of the past. If none does, this command reads the log up
to that moment and folds it in its own memory, which takes long on a long log. The log does not record
which tasks were suspect and how far programs were; --since and --until still count from now.`,
		Example: `  millrace task ls --state error,abnormal --since 24h
  millrace task ls 'state:error since:24h "no space"'
  millrace task ls --job backup --label customer=acme --limit 10
  millrace task ls --state active --watch
  millrace task ls --suspect
  millrace task ls --at -10m --queue bulk --counts
  millrace task cancel $(millrace task ls --queue bulk --state pending --names)`,
		Args: cobra.ArbitraryArgs,
	}
	r, fs := &f.Request, c.Flags()
	fs.StringSliceVar(&f.States, "state", nil, "`states`, with commas: "+view.StateNames()+"; active and ended stand for several")
	f.FilterFlags(c)
	f.PageFlags(fs)
	fs.BoolVar(&r.Counts, "counts", false, "also the number of tasks in each state")
	fs.BoolVarP(&f.watch, "watch", "w", false, "print it again whenever something has changed")
	fs.StringVar(&f.consistent, "consistent", "", "wait up to 30s until the list reflects this `sequence`, or all that was written before; else 2s for the latter, and show what there is")
	fs.Lookup("consistent").NoOptDefVal = lastWrite
	f.sight = a.AtFlag(c, connect.Then{Lacks: []string{"heartbeats", "progress", "checkpoints"}})
	fs.BoolVar(&f.names, "names", false, "print nothing but ids; of all tasks unless --limit is given")
	f.Flags(c)
	c.MarkFlagsMutuallyExclusive("at", "consistent")
	c.MarkFlagsMutuallyExclusive("at", "suspect")
	c.RunE = func(c *cobra.Command, words []string) error {
		f.query = strings.Join(words, " ")
		if err := f.Read(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := a.GoOn(c.Context(), cl, &f); err != nil {
			return err
		}
		if err := f.Times(c, a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		f.Request.Query = f.query
		if err := f.Request.Read(a.Now()); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return a.list(c.Context(), cl, &f)
	}
	return c
}

// FilterFlags adds the flags that choose tasks, the same for all such commands.
func (f *ListFlags) FilterFlags(c *cobra.Command) {
	r, fs := &f.Request, c.Flags()
	for i := range view.Fields {
		k := &view.Fields[i]
		if k.Flag == "" {
			continue
		}
		switch is := k.In(&r.Filter).Addr().Interface().(type) {
		case *string:
			fs.StringVarP(is, k.Flag, k.Short, "", k.Usage)
		case *bool:
			fs.BoolVarP(is, k.Flag, k.Short, false, k.Usage)
		case *[]int:
			fs.IntSliceVarP(is, k.Flag, k.Short, nil, k.Usage)
		case *map[string]string: // labels, which are read later
			fs.StringArrayVarP(&f.labels, k.Flag, k.Short, nil, k.Usage)
		case *time.Time: // the log's time is not known yet
			fs.StringP(k.Flag, k.Short, "", k.Usage)
		}
	}
	r.Limit = 50
	settings.Count(fs, &r.Limit, "limit", "", "how many, at most 1000")
	fs.BoolVar(&r.OldestFirst, "oldest", false, "oldest first")
}

// PageFlags adds the flags for paging.
func (f *ListFlags) PageFlags(fs *pflag.FlagSet) {
	fs.StringVar(&f.after, "after", "", "go on after the page whose last task was this one, an `id`")
	fs.StringVar(&f.Request.Cursor, "cursor", "", "go on after the page whose \"next\" in JSON was this `cursor`")
}

// GoOn finds the task after which a page begins.
func (a *Commands) GoOn(ctx context.Context, c *client.Client, f *ListFlags) (err error) {
	if f.after != "" {
		f.Request.After, err = a.TaskID(ctx, c, f.after)
	}
	return err
}

// Read turns the flags into the request.
func (f *ListFlags) Read(c *cobra.Command, now time.Time) (err error) {
	r := &f.Request
	q, err := view.ParseFilter(f.query, now)
	if err != nil {
		return err
	}
	if at := c.Flag("at"); at != nil && at.Changed && q.Text+r.Text != "" {
		return client.ErrPastText
	}
	if r.States, err = settings.States(f.States); err != nil {
		return err
	}
	if r.Labels, err = settings.Labels(f.labels); err != nil {
		return err
	}
	if err := f.Times(c, now); err != nil {
		return err
	}
	for _, p := range r.Priorities {
		if err := placement.ValidPriority(p); err != nil {
			return fmt.Errorf("--priority: %w", err)
		}
	}
	if f.after != "" {
		if r.Cursor != "" {
			return errors.New("--after and --cursor are both given; choose one")
		}
		if err := connect.PlausibleID(f.after); err != nil {
			return fmt.Errorf("--after: %w", err)
		}
	}
	r.Progress = !f.names
	if r.Limit < 1 || r.Limit > 1000 {
		return fmt.Errorf("--limit is %d, want 1 to 1000", r.Limit)
	}
	if f.names && !f.watch && !c.Flags().Changed("limit") {
		f.all, r.Limit = true, 1000
	}
	if f.consistent != "" && f.consistent != lastWrite {
		if r.AtLeast, err = strconv.ParseUint(f.consistent, 10, 64); err != nil {
			return fmt.Errorf("--consistent: %q is no sequence of the log", f.consistent)
		}
	}
	return nil
}

// Times parses the flags that are times. A command does so twice: before it connects, so that a
// mistyped one is refused at once, and afterwards, when it knows the log's time.
func (f *ListFlags) Times(c *cobra.Command, now time.Time) (err error) {
	for flag, to := range map[string]*time.Time{"since": &f.Request.Since, "until": &f.Request.Until} {
		if !c.Flags().Changed(flag) {
			continue
		}
		if *to, err = view.ParsePast(c.Flag(flag).Value.String(), now); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	return nil
}

// list prints one page after the other, of the present or of the past.
func (a *Commands) list(ctx context.Context, c *client.Client, f *ListFlags) error {
	s, err := f.sight(ctx, c)
	if err != nil {
		return err
	}
	r, patience := f.Request, time.Duration(0) // of an answer that is to wait for something
	filter := r.Filter
	if _, err := filter.Start(); err != nil { // no request is needed
		return err
	}
	if f.consistent == lastWrite {
		asking, cancel := a.Asking(ctx)
		defer cancel()
		last, err := c.Last(asking)
		if err != nil {
			return err
		}
		r.AtLeast = last
	}
	if r.AtLeast > 0 {
		patience = connect.CatchUp
	}
	for {
		look := connect.Look(ctx, a.App, c, &s, func(ctx context.Context, q connect.Question) (client.ListPage, error) {
			asked := r
			asked.At, asked.AtLeast = q.At, max(r.AtLeast, q.AtLeast)
			return c.List(ctx, asked)
		})
		asking, cancel := a.Asking(ctx)
		if patience > 0 {
			cancel()
			asking, cancel = context.WithTimeout(ctx, max(a.Conn.Timeout, patience))
		}
		page, err := look(asking)
		cancel()
		switch {
		case f.watch && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case page.Seq != r.NewerThan || r.NewerThan == 0:
			if err := a.printPage(&page, f, &s); err != nil {
				return err
			}
		}
		if f.all && page.Next != "" {
			r.Cursor, r.After = page.Next, ""
			continue
		}
		if !f.watch {
			return nil
		}
		r.NewerThan, r.AtLeast, patience = page.Seq, 0, connect.NextNews
	}
}

func (a *Commands) printPage(page *client.ListPage, f *ListFlags, s *connect.Sight) error {
	if page.Tasks == nil {
		page.Tasks = []task.Task{}
	}
	switch {
	case f.JSON() && f.watch:
		return a.WriteLine(page)
	case f.JSON():
		return a.WriteJSON(struct {
			*client.ListPage
			At *connect.ShownPoint `json:"at,omitempty"`
		}{page, s.Past})
	case f.names:
		for _, t := range page.Tasks {
			if _, err := fmt.Fprintln(a.Out, t.ID); err != nil {
				return err
			}
		}
		return nil
	}
	if f.watch {
		a.Repaint()
	}
	t := TaskTable(page, s.Now())
	s.Mark(&t, a.Now())
	return a.Print(t)
}

// TaskTable lays out a page of tasks, children below their parents.
func TaskTable(page *client.ListPage, now time.Time) term.Table {
	short := task.Shorten(idsOf(page.Tasks))
	var rows []wording.TaskRow
	for _, at := range view.Arrange(page.Tasks) {
		row := wording.TaskRowOf(page, at.Task)
		row.Depth = at.Depth
		if row.Doubt != "" {
			row.Says = wording.Clocks(row.Says)
		} else if row.Says == "" {
			row.Says = wording.SaidHere(at.Task)
		}
		rows = append(rows, row)
	}
	type row = *wording.TaskRow
	columns := append(wording.TaskColumns(now, short),
		term.Text("AGE", 5, func(r row) string { return wording.Age(r.SubmittedAt, now) }),
		term.Text("TOOK", 3, func(r row) string { return took(&r.Task, now) }),
		term.Text("MESSAGE", 0, func(r row) string { return r.Says }))
	t := term.List(rows, term.Choose(columns, "id", "state", "what", "queue", "node", "attempt", "age", "took", "message")...)
	if page.Counts != nil {
		t.Foot = append(t.Foot, CountsLine(page.Counts))
	}
	foot := fmt.Sprintf("%s, as of sequence %d", wording.Plural(len(page.Tasks), "task"), page.Seq)
	if n := len(page.Tasks); page.Searched > 0 {
		foot += ", of " + wording.Plural(page.Searched, "task") + " whose records were read"
		if page.Next != "" {
			foot += "; more with --cursor " + page.Next
		}
	} else if page.Next != "" && n > 0 {
		foot += "; more with --after " + short(page.Tasks[n-1].ID)
	}
	t.Foot = append(t.Foot, foot)
	return t
}

func idsOf(tasks []task.Task) []task.ID {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// took returns how long the last attempt runs or ran.
func took(t *task.Task, now time.Time) string {
	switch {
	case t.Live() && !t.StartedAt.IsZero():
		return wording.Span(max(now.Sub(t.StartedAt), 0).Truncate(time.Second))
	case t.Ran > 0:
		return wording.Span(t.Ran.Std())
	}
	return ""
}

// CountsLine lists the numbers of tasks by state, in the order of a task's life.
func CountsLine(counts map[string]int) string {
	var parts []string
	for _, s := range task.States() {
		if n := counts[s.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, n))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if _, err := task.ParseState(name); err != nil && counts[name] > 0 { // of a newer server
			parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	if len(parts) == 0 {
		return "no tasks"
	}
	return strings.Join(parts, " · ")
}
