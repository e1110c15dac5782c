package verb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/settings"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
)

// limitFlags are the flags of `millrace run` for limits.
type limitFlags struct {
	concurrency []string
	perNode     []string
	budget      []string
	rate        []string
	burst       int
	key         string
	onLimit     string
	unique      string
	collapse    string
	collect     bool
}

func (f *limitFlags) flags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.concurrency, "concurrency", nil, "at most so many under way at once, of the job or with the same key: `number[:KEY]` (repeat it)")
	fs.StringArrayVar(&f.perNode, "per-node", nil, "at most so many running on one node, of the job or with the same key: `number[:KEY]` (repeat it)")
	fs.StringArrayVar(&f.budget, "budget", nil, "at most so many starts, or so much run time, in a day, week or month, of the job or with the same key, `amount/period[@ZONE][:KEY]`: 1000/day, 8h/week@Europe/Berlin (repeat it)")
	fs.StringArrayVar(&f.rate, "rate", nil, "at most so many starts in a time, of the job or with the same key, `number/time[:KEY]`: 10/1m (repeat it)")
	settings.Count(fs, &f.burst, "burst", "", "so many of --rate at once (default 1)")
	fs.StringVar(&f.key, "key", "", "split each --concurrency, --per-node, --budget and --rate without a key of its own by this `key`: acme, {params.customer}, {labels.site}, {queue}, /for-all-jobs")
	fs.StringVar(&f.onLimit, "on-limit", "", "if --concurrency has no place: "+strings.Join(limit.OnLimits, ", ")+" (default wait)")
	fs.StringVar(&f.unique, "unique", "", "refuse it while another task with this `key` has not ended")
	fs.StringVar(&f.collapse, "collapse", "", "make one task of all submissions with a key: it starts when none has come for a time, or at the latest a time after the first, `time[/latest]:KEY`: 10s:reindex, 10s/5m:{params.customer} (ten times as long)")
	fs.BoolVar(&f.collect, "collect", false, "with --collapse, hand over the parameters of each of them, as the list collected")
}

// set copies the flags into a submission.
func (f *limitFlags) set(c *cobra.Command, s *birth.Submission) error {
	given := c.Flags().Changed
	switch {
	case given("on-limit") && !given("concurrency"):
		return fmt.Errorf("--on-limit says what happens if --concurrency has no place; give that, too")
	case given("burst") && !given("rate"):
		return fmt.Errorf("--burst belongs to --rate; give that, too")
	case given("key") && !given("concurrency") && !given("per-node") && !given("budget") && !given("rate"):
		return fmt.Errorf("--key splits --concurrency, --per-node, --budget or --rate; give one of them, too")
	}
	for _, text := range f.concurrency {
		most, key, err := f.most("concurrency", text)
		if err != nil {
			return err
		}
		s.Concurrency = append(s.Concurrency, limit.Concurrency{Max: most, Key: key, OnLimit: f.onLimit})
	}
	for _, text := range f.perNode {
		most, key, err := f.most("per-node", text)
		if err != nil {
			return err
		}
		s.PerNode = append(s.PerNode, limit.PerNode{Max: most, Key: key})
	}
	for _, text := range f.budget {
		amount, key := f.keyed(text)
		b, err := parseBudget(amount)
		if err != nil {
			return fmt.Errorf("--budget is %q, want a number of starts or a run time and a period, perhaps with a zone and a key: 1000/day or 8h/week@Europe/Berlin:{labels.site}: %w", text, err)
		}
		b.Key = key
		s.Budget = append(s.Budget, b)
	}
	for _, text := range f.rate {
		rate, key := f.keyed(text)
		r, err := settings.ParseRate(rate)
		if err != nil {
			return fmt.Errorf("--rate is %q, want a number and a time, perhaps with a key: 10/1m or 10/1m:{labels.site}: %w", text, err)
		}
		r.Burst, r.Key = f.burst, key
		s.Rate = append(s.Rate, r)
	}
	if given("unique") {
		s.Unique = &job.Unique{Key: f.unique}
	}
	return f.setCollapse(s)
}

func (f *limitFlags) setCollapse(s *birth.Submission) error {
	if f.collapse == "" {
		if f.collect {
			return fmt.Errorf("--collect belongs to --collapse; give that, too")
		}
		return nil
	}
	times, key, _ := strings.Cut(f.collapse, ":")
	quiet, most, bounded := strings.Cut(times, "/")
	c := &job.Collapse{Key: key}
	err := c.Quiet.UnmarshalText([]byte(quiet))
	if err == nil && bounded {
		err = c.Most.UnmarshalText([]byte(most))
	}
	if err != nil || key == "" {
		return fmt.Errorf("--collapse is %q, want a time and a key, perhaps with the latest time: 10s:reindex or 10s/5m:{params.customer}", f.collapse)
	}
	if f.collect {
		c.Keep = job.KeepAll
	}
	s.Collapse = c
	return nil
}

// most parses a number of tasks and its key.
func (f *limitFlags) most(flag, text string) (n int, key string, err error) {
	number, key := f.keyed(text)
	if n, err = strconv.Atoi(number); err != nil || n < 1 {
		return n, key, fmt.Errorf("--%s is %q, want a number, perhaps with a key: 5 or 1:{params.customer}", flag, text)
	}
	return n, key, nil
}

// parseBudget parses a number of starts or a run time, and its period after a /.
func parseBudget(text string) (b limit.Budget, err error) {
	amount, per, timed := strings.Cut(text, "/")
	if !timed {
		return b, fmt.Errorf("the period is missing: %s/day is so much in a day", amount)
	}
	b.Per, b.Timezone, _ = strings.Cut(per, "@")
	if b.Starts, err = strconv.Atoi(amount); err == nil {
		return b, nil
	}
	return b, b.Run.UnmarshalText([]byte(amount))
}

// keyed separates a limit from its key.
func (f *limitFlags) keyed(text string) (limit, key string) {
	limit, key, own := strings.Cut(text, ":")
	if !own {
		key = f.key
	}
	return limit, key
}
