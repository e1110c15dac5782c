package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/value"
)

// Span is a flag that [value.ParseDuration] parses; Given tells whether it was set.
type Span struct {
	D     time.Duration
	Given bool
	// Least is the shortest one. Default: 0.
	Least time.Duration
}

func (f *Span) String() string {
	if !f.Given {
		return ""
	}
	return f.D.String()
}
func (f *Span) Type() string { return "duration" }
func (f *Span) Set(s string) (err error) {
	if f.D, err = value.ParseDuration(s); err == nil && f.D < f.Least {
		err = fmt.Errorf("%q is too short: want at least %v", s, f.Least)
	}
	f.Given = err == nil
	return err
}

// Period defines a flag for a duration that is set to its default.
func Period(fs *pflag.FlagSet, d *time.Duration, name, usage string) {
	fs.Var((*periodFlag)(d), name, usage)
}

type periodFlag time.Duration

func (p *periodFlag) String() string { return (*value.Duration)(p).String() }
func (p *periodFlag) Type() string   { return "duration" }
func (p *periodFlag) Set(s string) error {
	d, err := value.ParseDuration(s)
	if err == nil {
		*p = periodFlag(d)
	}
	return err
}

// Count defines a flag for a number of at least 1, whose default is 0 or what n is: 0 would silently
// mean the default.
func Count(fs *pflag.FlagSet, n *int, name, short, usage string) {
	fs.VarP((*count)(n), name, short, usage)
	if *n == 0 {
		fs.Lookup(name).DefValue = ""
	}
}

type count int

func (n *count) String() string { return strconv.Itoa(int(*n)) }
func (n *count) Type() string   { return "int" }
func (n *count) Set(s string) error {
	i, err := strconv.Atoi(s)
	if err == nil && i < 1 {
		err = fmt.Errorf("%q is too small: want 1 or more", s)
	}
	if err == nil {
		*n = count(i)
	}
	return err
}

// Wanted returns the duration for a submission, nil if it was not given.
func (f *Span) Wanted() *value.Duration {
	if !f.Given {
		return nil
	}
	d := value.Duration(f.D)
	return &d
}

// Seen is --if-revision: the revision that the user has seen; a change applies only to that.
type Seen struct {
	R     uint64
	Given bool
}

// Flag adds the flag, for things of a kind.
func (f *Seen) Flag(c *cobra.Command, kind string) {
	of := "the `revision`"
	if kind == "queue" {
		of = "the `head`"
	}
	c.Flags().Var(f, "if-revision", "change it only if this is still "+of+"; 0 if there was none")
}

func (f *Seen) String() string {
	if !f.Given {
		return ""
	}
	return strconv.FormatUint(f.R, 10)
}

func (f *Seen) Type() string { return "revision" }

func (f *Seen) Set(s string) (err error) {
	if f.R, err = strconv.ParseUint(s, 10, 64); err != nil {
		return fmt.Errorf("%q is no revision: want a number from 0 on", s)
	}
	f.Given = true
	return nil
}

// Revisions returns the revision seen, or an empty list for any.
func (f *Seen) Revisions() []uint64 {
	if !f.Given {
		return nil
	}
	return []uint64{f.R}
}

// Pairs parses k=v, each name once.
func Pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(list))
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--%s %q: want name=value", flag, s)
		}
		if _, twice := m[k]; twice {
			return nil, fmt.Errorf("--%s %s is there twice", flag, k)
		}
		m[k] = v
	}
	return m, nil
}

// Labels parses the values of --label.
func Labels(list []string) (map[string]string, error) {
	all, err := placement.ParseLabels(list)
	if err != nil {
		return nil, fmt.Errorf("--label %w", err)
	}
	return all, nil
}

// Params adds up the parameters of --params (a text, @file, or - for in) and of each --param: those
// that are JSON, and those that are text, which the desk parses as the job declares them.
func Params(whole string, each []string, in io.Reader) (values map[string]json.RawMessage, texts map[string]string, err error) {
	if texts, err = Pairs("param", each); err != nil || whole == "" {
		return nil, texts, err
	}
	body, err := Body(whole, in)
	var lines map[string]string
	if err == nil {
		values, lines, err = readParams(body)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--params: %w", err)
	}
	if len(lines) > 0 {
		maps.Copy(lines, texts)
		texts = lines
	}
	return values, texts, nil
}

// readParams parses a JSON object, or lines name=value as [value.Pairs] does.
func readParams(body []byte) (values map[string]json.RawMessage, texts map[string]string, err error) {
	const wanted = "want a JSON object, such as {\"name\": \"World\"}, or lines name=value"
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if text := bytes.TrimSpace(body); json.Valid(text) || bytes.HasPrefix(text, []byte("{")) {
		values, err := value.Members(text)
		switch {
		case errors.As(err, new(*value.Misfit)):
			return nil, nil, err
		case err != nil || !json.Valid(text):
			return nil, nil, errors.New(wanted)
		}
		return values, nil, nil
	}
	if !utf8.Valid(body) {
		return nil, nil, errors.New("this is not UTF-8: " + wanted)
	}
	pairs, err := value.Pairs(string(body))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("this is no JSON object, and %w", err)
	case len(pairs) == 0:
		return nil, nil, errors.New(wanted)
	}
	texts = make(map[string]string, len(pairs))
	for _, p := range pairs {
		if _, twice := texts[p.Name]; twice {
			return nil, nil, fmt.Errorf("%s is there twice", p.Name)
		}
		texts[p.Name] = p.Value
	}
	return nil, texts, nil
}

// Body returns s itself, or the content of the file or stream that it names.
func Body(s string, in io.Reader) ([]byte, error) {
	switch {
	case s == "-":
		return io.ReadAll(in)
	case strings.HasPrefix(s, "@"):
		return os.ReadFile(s[1:])
	}
	return []byte(s), nil
}

// Weights parses queues with their weights, crawl=3, each queue once; without one the weight is 1.
func Weights(list []string) (queues []string, weights map[string]int, err error) {
	weights = map[string]int{}
	for _, item := range list {
		queue, text, given := strings.Cut(item, "=")
		if slices.Contains(queues, queue) {
			return nil, nil, fmt.Errorf("queue %q is there twice", queue)
		}
		if queues = append(queues, queue); !given {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > placement.MaxWeight {
			return nil, nil, fmt.Errorf("queue %q: the weight is %q, want 1 to %d", queue, text, placement.MaxWeight)
		}
		weights[queue] = n
	}
	return queues, weights, nil
}

// States parses states of --state.
func States(list []string) ([]task.State, error) {
	states, err := view.ParseStates(list)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	return states, nil
}

// ParseRate parses a number of starts, and its period after a /.
func ParseRate(text string) (r limit.Rate, err error) {
	count, per, timed := strings.Cut(text, "/")
	if r.Limit, err = strconv.Atoi(count); err != nil || r.Limit < 1 {
		return r, fmt.Errorf("%q is no number of at least 1", count)
	}
	if !timed {
		return r, fmt.Errorf("the time is missing: %s/1s is so many in a second, %s/1m in a minute", count, count)
	}
	if err = r.Per.UnmarshalText([]byte(per)); err == nil && r.Per == 0 {
		err = fmt.Errorf("%q is no time: want more than 0", per)
	}
	return r, err
}
