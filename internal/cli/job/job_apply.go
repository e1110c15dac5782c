package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/verb"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// jobApplier is what `job apply` does beside storing the jobs of its files.
type jobApplier struct {
	*Commands
	prune, dry, yes bool
	source          string
}

func (a *Commands) jobApply() *cobra.Command {
	p := &jobApplier{Commands: a}
	c := applying(a, &applied[job.Job]{
		what: "job", use: "apply -f FILE|DIR|-", read: a.readJobs, name: func(j *job.Job) string { return j.Name },
		store: func(cl *client.Client, ctx context.Context, file string, j job.Job, seen ...uint64) (uint64, bool, error) {
			return cl.ApplyFrom(ctx, j, p.from(file), seen...)
		},
		flags: p.flags, before: p.before,
		after: func(ctx context.Context, cl *client.Client, j *job.Job) {
			verb.Of(a.App).ForeseeJob(ctx, cl, j)
			a.remarks(j)
		},
	})
	c.Long += `

With --prune the files are the whole: jobs that were applied from them and are in them no more, a job's earlier name, say,
are removed with the schedules that came with them. It shows them first, and asks. What came from elsewhere stays: from
another file or folder, over HTTP, from a page. --source gives what it applies a name that counts instead of the place of
the file, for files that come from several checkouts.`
	c.Example = `  millrace job apply -f jobs/
  millrace job apply --prune --dry-run jobs/
  millrace job apply --prune --yes --source shop jobs/`
	return c
}

func (p *jobApplier) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.BoolVar(&p.prune, "prune", false, "remove the jobs that came from these files, and are in them no more")
	fs.StringVar(&p.source, "source", "", "`name` of where the jobs come from (default the path of each file)")
	fs.BoolVar(&p.dry, "dry-run", false, "say what would be stored and removed")
	fs.BoolVarP(&p.yes, "yes", "y", false, "do not ask")
}

// from is where a job of a file comes from.
func (p *jobApplier) from(file string) task.From {
	return task.From{Source: p.sourceOf(file), Marks: p.prune || p.source != ""}
}

func (p *jobApplier) sourceOf(path string) string {
	if p.source != "" || path == "stdin" || path == "-" {
		return p.source
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return whole
}

// before checks the schedules of all jobs, and whom they follow, asks about what is to be removed, and pushes files.
func (p *jobApplier) before(c *cobra.Command, cl *client.Client, read []settings.FileOf[job.Job], paths []string, asJSON bool) (end func(context.Context) ([]string, error), err error) {
	if p.prune && p.source == "" && slices.Contains(paths, "-") {
		return nil, term.Misuse(c, "--prune cannot know which jobs came from stdin before: name them with --source")
	}
	asking, cancel := p.Asking(c.Context())
	defer cancel()
	if err := refused(asking, cl, read); err != nil {
		return nil, err
	}
	var leave []leftover
	if p.prune {
		if leave, err = p.leftovers(asking, cl, read, paths); err != nil {
			return nil, err
		}
	}
	switch {
	case p.dry:
		if err := p.foretell(asking, cl, read, leave, asJSON); err != nil {
			return nil, err
		}
		return nil, errDone
	case len(leave) > 0 && !p.yes:
		if err := p.Confirm(c, "remove "+strings.Join(wordsOf(leave), ", ")+"?"); err != nil {
			return nil, err
		}
	}
	if err := p.pushFilesOf(c, cl, read); err != nil || len(leave) == 0 {
		return nil, err
	}
	return func(ctx context.Context) (gone []string, err error) {
		for _, l := range leave {
			asking, cancel := p.Asking(ctx)
			err := cl.RemoveJob(asking, l.name)
			cancel()
			if err != nil && !errors.Is(err, definitions.ErrNoJob) { // else somebody was faster
				return gone, err
			}
			if gone = append(gone, l.name); !asJSON {
				fmt.Fprintf(p.Out, "%s removed\n", l.words())
			}
		}
		return gone, nil
	}, nil
}

// leftover is a job that its files no longer have, with the schedules that go with it.
type leftover struct {
	name      string
	schedules []string
}

func (l leftover) words() string {
	switch len(l.schedules) {
	case 0:
		return "job " + l.name
	case 1:
		return fmt.Sprintf("job %s with its schedule %s", l.name, l.schedules[0])
	}
	return fmt.Sprintf("job %s with its schedules %s", l.name, strings.Join(l.schedules, ", "))
}

func wordsOf(all []leftover) (words []string) {
	for _, l := range all {
		words = append(words, l.words())
	}
	return words
}

// leftovers returns the jobs that came from the files at the paths, and are in them no more. It notes
// those that came from elsewhere.
func (p *jobApplier) leftovers(ctx context.Context, cl *client.Client, read []settings.FileOf[job.Job], paths []string) (all []leftover, err error) {
	stored, err := cl.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var sources, elsewhere []string
	for _, path := range paths {
		sources = append(sources, p.sourceOf(path))
	}
	for i := range stored {
		j := &stored[i]
		has := func(f settings.FileOf[job.Job]) bool {
			return slices.ContainsFunc(f.All, func(in job.Job) bool { return in.Name == j.Name })
		}
		ours := func(source string) bool {
			return j.Source == source || p.source == "" && filepath.Dir(j.Source) == source
		}
		switch {
		case slices.ContainsFunc(read, has):
		case j.Source == "" || !slices.ContainsFunc(sources, ours):
			elsewhere = append(elsewhere, j.Name)
		default:
			own, others, err := cl.SchedulesOfJob(ctx, j.Name)
			if err == nil && len(others) > 0 {
				err = &client.InUse{Job: j.Name, Schedules: others}
			}
			if err != nil {
				return nil, err
			}
			all = append(all, leftover{j.Name, own})
		}
	}
	if len(elsewhere) > 0 {
		p.Note("came from elsewhere, and kept: %s", cutList(elsewhere, 10))
	}
	return all, nil
}

// cutList names some, and how many more there are.
func cutList(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// foretell says what applying would do.
func (p *jobApplier) foretell(ctx context.Context, cl *client.Client, read []settings.FileOf[job.Job], leave []leftover, asJSON bool) error {
	type row struct {
		Name    string `json:"name"`
		Changed bool   `json:"changed"`
		File    string `json:"file,omitempty"`
		Removed bool   `json:"removed,omitempty"`
	}
	rows := []row{}
	for _, f := range read {
		for i := range f.All {
			j := &f.All[i]
			was, err := cl.Job(ctx, j.Name)
			if err != nil && !errors.Is(err, definitions.ErrNoJob) && !errors.Is(err, definitions.ErrBadJob) {
				return err
			}
			x, err1 := json.Marshal(j)
			y, err2 := json.Marshal(was.Job)
			same := err == nil && err1 == nil && err2 == nil && bytes.Equal(x, y)
			rows = append(rows, row{Name: j.Name, Changed: !same, File: f.Name})
			if asJSON {
				continue
			}
			what := "would be stored"
			if same {
				what = "is unchanged"
			}
			if _, err := fmt.Fprintf(p.Out, "job %s %s\n", j.Name, what); err != nil {
				return err
			}
			for _, name := range dropped(&was.Job, j) {
				fmt.Fprintf(p.Out, "schedule %s, which the file has no more, would be removed\n", name)
			}
		}
	}
	for _, l := range leave {
		rows = append(rows, row{Name: l.name, Changed: true, Removed: true})
		if !asJSON {
			fmt.Fprintf(p.Out, "%s would be removed\n", l.words())
		}
	}
	if asJSON {
		return p.WriteJSON(rows)
	}
	return nil
}

// dropped names the schedules of a job that it has no more.
func dropped(was, is *job.Job) (names []string) {
	has := map[string]bool{}
	for _, d := range schedule.OfJob(is) {
		has[d.Name] = true
	}
	for _, d := range schedule.OfJob(was) {
		if !has[d.Name] {
			names = append(names, d.Name)
		}
	}
	return names
}

// refused returns why one of several jobs would not be stored because of a schedule, or because it would follow
// itself; nil if all would be.
func refused(ctx context.Context, cl *client.Client, read []settings.FileOf[job.Job]) error {
	var wrong []error
	all := map[string]*job.Job{}
	for _, f := range read {
		for i := range f.All {
			all[f.All[i].Name] = &f.All[i]
		}
	}
	for _, f := range read {
		for i := range f.All {
			err := schedule.ValidateOfJob(&f.All[i], "timetable", func(d schedule.Definition) error { return cl.RefusesSchedule(ctx, d) })
			err = value.JoinFaults(err, cl.RefusesCircle(ctx, &f.All[i], all))
			wrong = append(wrong, value.Under("job "+f.All[i].Name+": ", err))
		}
	}
	return errors.Join(wrong...)
}
