package verb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task/job"
	"millrace/task/param"
)

// paramsOf returns the job whose parameters a command line can set: the job that it runs, or of the
// schedule that it runs, or of the task that it copies. The job is empty if that cannot be found
// out.
func (a *Commands) paramsOf(ctx context.Context, cl *client.Client, c *cobra.Command, name string) (job job.Job) {
	revision := uint64(0)
	switch {
	case c.Name() == "copy":
		id, err := a.TaskID(ctx, cl, name)
		if err != nil {
			return job
		}
		t, err := cl.Task(ctx, id)
		if err != nil || t.Job == "" {
			return job
		}
		name, revision = t.Job, t.Revision
	case c.HasParent() && c.Parent().Name() == "schedule":
		s, err := cl.Schedule(ctx, name)
		if err != nil || s.Make.Job == "" {
			return job
		}
		name = s.Make.Job
	}
	stored, err := cl.JobAt(ctx, name, revision)
	if err != nil {
		return job
	}
	return stored.Job
}

// CompleteParams completes the parameters of what is on the line, and the values of one.
func (a *Commands) CompleteParams(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	named, _, value := strings.Cut(typed, "=")
	words, _ := a.Complete(c, func(ctx context.Context, cl *client.Client) (words []string) {
		job := a.paramsOf(ctx, cl, c, args[0])
		for _, d := range shownParams(&job.Params) {
			switch {
			case value && d.Name == named:
				for _, text := range d.Texts() {
					words = append(words, d.Name+"="+text)
				}
			case !value:
				words = append(words, d.Name+"=\t"+wanted(&job.Params, &d))
			}
		}
		return words
	})
	if value {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// shownParams returns parameters for display: the declared ones in their order, else the defaults
// by name.
func shownParams(p *param.Params) []param.Param {
	all := slices.Clone(p.Declared)
	if len(all) > 0 {
		return all
	}
	for name, value := range p.Defaults {
		all = append(all, param.Param{Name: name, Default: value})
	}
	slices.SortFunc(all, func(a, b param.Param) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// wanted describes a parameter and its default; for an undeclared one only the default is known.
func wanted(p *param.Params, d *param.Param) string {
	switch {
	case len(p.Declared) == 0:
		return string(d.Default)
	case len(d.Default) > 0:
		return fmt.Sprintf("%s (default %s)", d.Allowed(), d.DefaultText())
	case d.Optional:
		return d.Allowed() + " (optional)"
	}
	return d.Allowed() + " (must be given)"
}

// helpOfJob adds to the help of a command the parameters of the job on its line, if a server knows
// them.
func (a *Commands) helpOfJob(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		help(c, args)
		names := c.Flags().Args()
		if len(names) == 0 {
			return
		}
		var job job.Job
		_, _ = a.Complete(c, func(ctx context.Context, cl *client.Client) []string {
			job = a.paramsOf(ctx, cl, c, names[0])
			return nil
		})
		shown := shownParams(&job.Params)
		if len(shown) == 0 {
			return
		}
		t := term.Table{Title: "Parameters of job " + job.Name + " (--param name=value)"}
		for i := range shown {
			d := &shown[i]
			words := []string{wanted(&job.Params, d)}
			for _, text := range []string{d.Title, d.Description} {
				if text != "" {
					words = append(words, text)
				}
			}
			t.Field(d.Name, strings.Join(words, "; "))
		}
		fmt.Fprintln(a.Out)
		_ = a.Print(t) // a help that cannot be written has no better place to say so
	}
}
