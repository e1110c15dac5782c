package serve

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process"
)

// programsFlags say which resident programs a worker keeps.
type programsFlags struct {
	lines   []string
	number  int // of each
	memory  sizeFlag
	tasks   int
	silence time.Duration
}

func (f *programsFlags) flags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.lines, "program", nil, "`line` that starts a program which stays alive and runs one task after the other, for the handlers that it names (repeat it for several programs)")
	settings.Count(fs, &f.number, "programs", "", "`number` of processes of each --program (default: as many as slots)")
	fs.Var(&f.memory, "program-memory", "how much memory such a process may use; one that takes more is killed and replaced, and its task fails")
	settings.Count(fs, &f.tasks, "program-tasks", "", "`number` of tasks after which such a process is replaced (default: never)")
	f.silence = time.Minute
	settings.Period(fs, &f.silence, "program-silence", "how long such a process may leave a PING without an answer during a task until it is killed and replaced; 0 for ever")
}

func (f *programsFlags) check(c *cobra.Command) error {
	if f.memory != 0 && f.memory < 1<<20 {
		return term.Misuse(c, "--program-memory is %v, want at least 1MiB", &f.memory)
	}
	for _, line := range f.lines {
		if strings.TrimSpace(line) == "" {
			return term.Misuse(c, "--program is empty, want a line such as 'python app.py'")
		}
	}
	return nil
}

// keepPrograms starts the resident programs of a worker and gives it their handlers.
func (p *parts) keepPrograms(c WorkerConfig, tasks *process.Tasks, w *worker.Worker) error {
	var all []*process.Residents
	p.closers = append(p.closers, func() {
		var ending sync.WaitGroup
		for _, r := range all {
			ending.Go(r.Close)
		}
		ending.Wait()
	})
	cfg := process.ResidentsConfig{
		Number: cmp.Or(c.programs.number, c.slots), Memory: value.Size(c.programs.memory), Tasks: c.programs.tasks, Silence: c.programs.silence, Log: p.log,
	}
	tasks.Programs = &process.Programs{Config: cfg}
	p.closers = append(p.closers, tasks.Programs.Close)
	for _, line := range c.programs.lines {
		cfg.Shell = line
		r, err := process.NewResidents(p.ctx, tasks, cfg)
		if err != nil {
			return fmt.Errorf("--program %q did not start: %w", line, err)
		}
		all = append(all, r)
		for _, name := range r.Names() {
			w.HandleBy(name, r)
		}
		p.log.Info("a resident program is ready", "program", line, "handlers", r.Names())
	}
	return nil
}
