package verb

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	look "millrace/internal/cli/task"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
)

// Own is what a command has of its own: it adds flags, and returns what is done after a change, with
// the answer. That returns what is to be shown, and what is added to its line.
type Own func(c *cobra.Command) (after func(ctx context.Context, cl *client.Client, answer any) (shown any, more string, err error))

// Add adds the commands of the service's verbs to those nouns that are in the tree.
func Add(a *connect.App, root *cobra.Command, own map[rights.Verb]Own) {
	for _, e := range answers.Endpoints() {
		if e.Command == nil {
			continue
		}
		path, takes := split(e.Command.Use)
		at := root
		for _, word := range path[:len(path)-1] {
			if at = below(at, word); at == nil {
				break
			}
		}
		if at != nil {
			at.AddCommand(commandOf(a, &e, path, takes, own[e.Verb]))
		}
	}
}

// Path returns the words by which the command of a verb is called, below millrace.
func Path(of *answers.Command) string {
	path, _ := split(of.Use)
	return strings.Join(path, " ")
}

// split parts the words of a command from what it takes.
func split(use string) (path []string, takes string) {
	words := strings.Fields(use)
	n := 0
	for n < len(words) && words[n] == strings.ToLower(words[n]) {
		n++
	}
	return words[:n], strings.Join(words[n:], " ")
}

// below returns the command of a name; nil if there is none.
func below(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

// noun is what the arguments of a command name.
type noun struct {
	what     string // in errors
	field    string // of the request
	complete func(*connect.App, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)
	// stated: a command says at once what is wrong with a name, and -o json prints the thing. Other
	// names lead to definitions: to look one up says what is wrong, and there is nothing to print.
	stated bool
}

// nouns are those by the first words of commands.
var nouns = map[string]noun{
	"task":     {"task id", "ID", (*connect.App).CompleteTasks, true},
	"node":     {"node", "ID", (*connect.App).CompleteNodes, true},
	"queue":    {"queue", "Queue", (*connect.App).CompleteQueues, true},
	"job":      {"job", "Name", (*connect.App).CompleteJobs, false},
	"schedule": {"schedule", "Name", (*connect.App).CompleteSchedules, false},
	"calendar": {"calendar", "Name", (*connect.App).CompleteCalendars, false},
	"files":    {"name", "Name", (*connect.App).CompleteFiles, false},
}

// command is the command of a verb.
type command struct {
	*connect.App
	is    *answers.Endpoint
	noun  noun
	tasks bool // the noun is that of tasks
	cobra *cobra.Command
	after func(ctx context.Context, cl *client.Client, answer any) (any, string, error)

	request any            // as the flags say, a pointer to the type of the request
	late    []func() error // read what flags name once there is a connection

	list  look.ListFlags // and -o
	wait  bool
	all   bool
	dry   bool
	yes   bool
	most  int           // 0 for all
	extra reflect.Value // takes the arguments after the first; invalid if none does
}

func commandOf(a *connect.App, e *answers.Endpoint, path []string, takes string, own Own) *cobra.Command {
	of, several := e.Command, strings.Contains(takes, "...")
	m := &command{App: a, is: e, noun: nouns[path[0]], tasks: path[0] == "task", request: e.NewRequest()}
	c := &cobra.Command{
		Use: path[len(path)-1] + " " + takes, Aliases: of.Aliases, Short: of.Short, Long: of.Long, Example: of.Example,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return m.noun.complete(a, c, args, typed)
		},
		RunE: m.run,
	}
	m.cobra = c
	m.flags(reflect.ValueOf(m.request).Elem())
	switch most := 1; {
	case of.Many != nil:
		m.bulkFlags()
	default:
		if several {
			most = -1
		}
		c.Args = settings.Takes(1, most, m.noun.what)
	}
	if of.Waits {
		c.Flags().BoolVar(&m.wait, "wait", false, "wait for the end")
	}
	if of.Asks != "" {
		c.Flags().BoolVarP(&m.yes, "yes", "y", false, "do not ask")
	}
	if of.Foresee != nil {
		c.Flags().BoolVar(&m.dry, "dry-run", false, "say what would be "+past(of.Asks))
	}
	if m.noun.stated {
		m.list.Flags(c)
	}
	if own != nil {
		m.after = own(c)
	}
	return c
}

// past is the past participle of what a user confirms.
func past(verb string) string { return strings.TrimSuffix(verb, "e") + "ed" }

// run does what was asked for to each of the things that are named, or to the tasks that filters choose.
func (m *command) run(c *cobra.Command, args []string) error {
	names, err := m.read(args)
	if err != nil {
		return term.Misuse(c, "%w", err)
	}
	if asks := m.is.Command.Asks; asks != "" && !m.yes && !m.dry {
		if err := m.Confirm(c, fmt.Sprintf("%s %s %s?", asks, wording.Plural(len(names), m.noun.what), strings.Join(names, ", "))); err != nil {
			return err
		}
	}
	return m.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		for i, name := range names {
			if !m.tasks {
				break
			}
			id, err := m.TaskID(ctx, cl, name)
			if err != nil {
				return err
			}
			names[i] = string(id)
		}
		for _, read := range m.late {
			if err := read(); err != nil {
				return err
			}
		}
		switch {
		case len(names) == 0:
			if err := m.list.Times(c, m.Now()); err != nil {
				return term.Misuse(c, "%w", err)
			}
			return m.bulk(ctx, cl)
		case m.tasks:
			return m.changeTasks(ctx, cl, names)
		}
		for _, name := range names {
			if err := m.change(ctx, cl, name); err != nil {
				return err
			}
		}
		return nil
	})(c, args)
}

// read checks what was typed and returns the names of the things meant.
func (m *command) read(args []string) (names []string, err error) {
	if m.is.Command.Many != nil {
		if err := m.checkFilters(args); err != nil {
			return nil, err
		}
	}
	names = args
	if m.extra.IsValid() {
		names = args[:1]
		changes, err := labelChanges(args[1:])
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			return nil, errors.New("name at least one label: KEY=VALUE sets it, KEY- removes it")
		}
		m.extra.Set(reflect.ValueOf(changes))
	}
	for _, name := range names {
		if !m.noun.stated {
			break
		}
		if m.tasks {
			id, err := connect.LaterID(name)
			if err != nil {
				return nil, err
			}
			name = string(id)
		}
		if err := m.is.Check(m.requestFor(name)); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// requestFor returns the request about one thing.
func (m *command) requestFor(name string) any {
	r := reflect.New(m.is.Request)
	r.Elem().Set(reflect.ValueOf(m.request).Elem())
	r.Elem().FieldByName(m.noun.field).SetString(name)
	return r.Interface()
}

// service is the service as this command is one: it has no read model.
func (m *command) service(cl *client.Client) *answers.Service {
	return &answers.Service{
		Client: cl,
		Say:    func(line string) { fmt.Fprintln(m.Out, line) },
		Note:   func(line string) { m.App.Note("%s", line) },
	}
}

// change changes a thing that is no task, and prints it.
func (m *command) change(ctx context.Context, cl *client.Client, name string) error {
	answer, err := m.do(ctx, cl, name)
	if err != nil || !m.noun.stated {
		return err
	}
	more := ""
	if m.after != nil {
		answer, more, err = m.after(ctx, cl, answer)
	} else {
		answer, err = m.shown(ctx, cl, answer)
	}
	switch {
	case err != nil:
		return err
	case m.list.JSON():
		return m.WriteJSON(answer)
	}
	_, err = fmt.Fprintln(m.Out, line(answer, m.is.Command.Line)+more)
	return err
}

// do has one thing changed, within the time of a request, or finds out what would refuse that.
func (m *command) do(ctx context.Context, cl *client.Client, name string) (any, error) {
	ctx, cancel := m.Asking(ctx)
	defer cancel()
	if m.dry {
		return nil, m.is.Command.Foresee(m.service(cl), ctx, name)
	}
	answer, err := m.is.Do(ctx, m.service(cl), m.requestFor(name))
	return answer, m.Meant(ctx, cl, err, name)
}

// changeTasks changes tasks and prints them. A failure with one does not stop the others.
func (m *command) changeTasks(ctx context.Context, cl *client.Client, ids []string) error {
	done := []task.Task{}
	var errs []error
	for _, id := range ids {
		answer, err := m.do(ctx, cl, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t := answer.(task.Task)
		if done = append(done, t); !m.wait && !m.list.JSON() {
			if _, err := fmt.Fprintln(m.Out, line(t, m.is.Command.Line)); err != nil {
				return err
			}
		}
	}
	failed := term.AllFaults(errs)
	switch {
	case m.wait && len(done) > 0:
		return term.FirstFault(failed, m.waitFor(ctx, cl, done))
	case m.list.JSON():
		return term.FirstFault(failed, m.WriteJSON(done))
	}
	return failed
}

// waitFor waits for the end of changed tasks. After a cancel, a cancelled task is a success and any
// other end is not.
func (m *command) waitFor(ctx context.Context, c *client.Client, tasks []task.Task) error {
	ids := make([]task.ID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	err := look.Of(m.App).WaitAll(ctx, c, ids, m.list.JSON())
	if m.is.Verb != rights.TaskCancel || ctx.Err() != nil {
		return err
	}
	var f *term.Fault
	switch {
	case err == nil, errors.As(err, &f) && f.Err == nil && f.Code != term.ExitInterrupted:
		return &term.Fault{Code: term.ExitRefused, Err: errors.New("a task came to another end before it could be cancelled")}
	case f != nil && f.Err == nil:
		return nil
	}
	return err
}
