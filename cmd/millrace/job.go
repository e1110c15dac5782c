package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/task"
	"millrace/task/jobfile"
	"millrace/view"
)

func (a *app) jobCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "job", Aliases: []string{"jobs", "j", "def"},
		Short: "Jobs: named definitions of what to run",
		Example: `  millrace job schema > job.schema.json
  millrace job validate hello.yaml
  millrace job apply -f hello.yaml
  millrace job show hello > hello.yaml`,
	})
	c.AddCommand(a.jobApply(), a.jobList(), a.jobShow(), a.jobHistory(), a.jobRemove(), a.jobValidate(), a.jobSchema(), a.jobBreaker())
	return c
}

func (a *app) jobApply() *cobra.Command {
	var o output
	var files []string
	c := &cobra.Command{
		Use: "apply -f FILE|DIR|-", Aliases: []string{"put", "set"},
		Short: "Store the jobs of files, or of all files in a folder",
		Long: `Stores the jobs of files; of a folder, those of every .yaml, .yml and .json file in it;
with "-", those that come in by stdin. Nothing is stored if anything is wrong with any file.`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "`file`, folder, or - for stdin (repeat it)")
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		read, err := a.readJobs(c, append(files, args...))
		if err != nil {
			return err
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		if err := a.pushFilesOf(c, cl, read); err != nil {
			return err
		}
		type applied struct {
			Name     string `json:"name"`
			Revision uint64 `json:"revision"`
			Changed  bool   `json:"changed"`
			File     string `json:"file"`
		}
		done := []applied{}
		for _, f := range read {
			for _, j := range f.all {
				asking, cancel := a.asking(c.Context())
				revision, changed, err := cl.Apply(asking, j)
				cancel()
				if err != nil {
					return err
				}
				a.foreseeJob(c.Context(), cl, &j)
				done = append(done, applied{j.Name, revision, changed, f.name})
				if o.json() {
					continue
				}
				what := "unchanged"
				if changed {
					what = "stored"
				}
				if _, err := fmt.Fprintf(a.out, "job %s %s (revision %d)\n", j.Name, what, revision); err != nil {
					return err
				}
			}
		}
		if o.json() {
			return a.writeJSON(done)
		}
		return nil
	}
	return c
}

func (a *app) jobList() *cobra.Command {
	var o output
	var names bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the jobs, with their schedules and latest tasks", Args: takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	o.flags(c)
	c.RunE = a.brief(func(ctx context.Context, cl *client.Client, _ []string) error {
		rows, broken := cl.JobRows(ctx)
		if rows == nil {
			rows = []client.JobRow{}
		}
		alone := errors.Is(broken, jet.ErrNoService)
		var err error
		switch {
		case broken != nil && !alone && len(rows) == 0:
			return broken
		case o.json():
			err = a.writeJSON(rows)
		case names:
			for i := range rows {
				fmt.Fprintln(a.out, rows[i].Name)
			}
		default:
			if err = a.print(jobTable(rows, a.now())); alone {
				a.note("no millrace server answers, so the latest tasks are not known")
			}
		}
		if alone {
			return err
		}
		return errors.Join(err, broken)
	})
	return c
}

func jobTable(rows []client.JobRow, now time.Time) table {
	t := table{
		header: []string{"JOB", "TITLE", "QUEUE", "SCHEDULE", "LAST", "REVISION", "CHANGED", "LABELS", "RUNS"},
		spare:  []string{"LABELS", "REVISION", "CHANGED", "QUEUE"},
		foot:   []string{plural(len(rows), "job")},
	}
	for i := range rows {
		j := &rows[i]
		t.add(plain(j.Name), plain(cut(j.Title, 40)), plain(cmp.Or(j.Queue, task.DefaultQueue)), plain(strings.Join(j.Schedules, ", ")), runCell(j.Last, now),
			plain(fmt.Sprint(j.Revision)), plain(age(j.Changed, now)), plain(pairs(j.Labels)), plain(cut(j.Text(), 80)))
	}
	return t
}

func (a *app) jobShow() *cobra.Command {
	var o output
	var revision uint64
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info", "cat"},
		Short: "Print a job, in the form that apply reads, and who changed it last",
		Args:  takes(1, 1, "job"), ValidArgsFunction: a.completeJobs,
	}
	c.Flags().Uint64Var(&revision, "revision", 0, "as it was at a `revision`; default: as it is now")
	o.flags(c, "yaml", "json")
	c.RunE = a.brief(func(ctx context.Context, cl *client.Client, args []string) error {
		j, err := cl.JobAt(ctx, args[0], revision)
		if err != nil {
			return err
		}
		changes, err := definitionFacts(ctx, cl, task.DefJob, args[0])
		if err != nil {
			return err
		}
		breaker, err := jobCircuit(ctx, cl, &j.Job)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(struct {
				jet.StoredJob
				Changes []shownFact   `json:"changes"`
				Circuit *task.Circuit `json:"circuit,omitempty"`
			}{j, showFacts(changes), breaker})
		}
		text, err := jobfile.Marshal(j.Job)
		if err != nil {
			return fmt.Errorf("%w; -o json prints it as it is stored", err)
		}
		_, err = fmt.Fprintf(a.out, "# revision %d, stored %s\n%s%s", j.Revision, clock(j.Changed), changeLines(changes)+circuitLine(breaker), text)
		return err
	})
	return c
}

func (a *app) jobHistory() *cobra.Command {
	return a.history("job", jet.ErrNoJob, a.completeJobs)
}

// definitionFacts are the changes of a definition of a kind.
func definitionFacts(ctx context.Context, cl *client.Client, kind, name string) ([]events.Record, error) {
	return view.All(ctx, cl.View(), view.Definition(task.DefOf(kind, name)))
}

// history is the command that lists the changes of a definition.
func (a *app) history(what string, none error, complete completer) *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "history NAME", Aliases: []string{"log"},
		Short: "List the changes of a " + what + ": when, by whom, and what to show them by",
		Args:  takes(1, 1, what), ValidArgsFunction: complete,
	}
	o.flags(c)
	c.RunE = a.brief(func(ctx context.Context, cl *client.Client, args []string) error {
		changes, err := definitionFacts(ctx, cl, what, args[0])
		switch {
		case err != nil:
			return err
		case len(changes) == 0:
			return &jet.Absent{Kind: none, Name: args[0]}
		case o.json():
			return a.writeJSON(showFacts(changes))
		}
		t := table{header: []string{"REVISION", "WHEN", "CHANGE", "BY"}, foot: []string{plural(len(changes), "change")}}
		for i := range changes {
			r, revision := &changes[i], ""
			if is := events.FoldDefinition(changes[i : i+1]); is.Revision > 0 {
				revision = fmt.Sprint(is.Revision)
			}
			t.add(plain(revision), plain(clock(factTime(r))), plain(factType(r)), plain(actor(r)))
		}
		return a.print(t)
	})
	return c
}

// changesShown is how many changes of a job are worth a line when it is shown.
const changesShown = 5

// changeLines are the last changes of a job as comments in its file, the latest first.
func changeLines(changes []events.Record) string {
	var b strings.Builder
	for i := len(changes) - 1; i >= max(0, len(changes)-changesShown); i-- {
		r := &changes[i]
		fmt.Fprintf(&b, "# %s %s by %s: %s\n", clock(factTime(r)), factType(r), printable(cmp.Or(actor(r), "somebody")), printable(factDetails(r)))
	}
	return b.String()
}

func (a *app) jobRemove() *cobra.Command {
	return a.removal("job", "Remove jobs; their tasks stay", a.completeJobs, (*client.Client).RemoveJob)
}

// removal is the command that removes definitions.
func (a *app) removal(what, short string, complete completer, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"del", "delete", "remove"},
		Short: short,
		Args:  takes(1, -1, what), ValidArgsFunction: complete,
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !yes {
			if err := a.confirm(c, fmt.Sprintf("remove %s %s?", plural(len(args), what), strings.Join(args, ", "))); err != nil {
				return err
			}
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		for _, name := range args {
			asking, cancel := a.asking(c.Context())
			err := remove(cl, asking, name)
			cancel()
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "%s %s removed\n", what, name); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// confirm asks a person; where none is, it refuses.
func (a *app) confirm(c *cobra.Command, question string) error {
	if !terminal(a.in) {
		return misuse(c, "nobody is there to be asked %q; --yes answers it", question)
	}
	fmt.Fprintf(a.errs, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.in).ReadString('\n') // no answer is a no
	if strings.HasPrefix(strings.ToLower(answer), "y") {
		return nil
	}
	return &fault{code: exitRefused, err: errors.New("nothing was done")}
}

func (a *app) jobSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of a job file, for editors", Args: takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(jobfile.Schema())
			return err
		},
	}
}
