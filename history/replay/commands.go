package replay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/task/value"
)

// Command is a command of a session.
type Command struct {
	// Key is the short name. Also are the names in other debuggers.
	Key  string   `json:"key"`
	Also []string `json:"also,omitempty"`
	// Takes describes the arguments.
	Takes string `json:"takes,omitempty"`
	Says  string `json:"says"`

	do func(x *Session, ctx context.Context, rest string) (*Answer, error)
}

// commands lists all commands, in the order of the help.
var commands []Command

func init() {
	commands = []Command{
		{"s", []string{"step", "stepi", "si"}, "[N]", "the next event, whatever it is about", times((*Session).step, 1)},
		{"S", []string{"rs", "reverse-step", "rsi", "reverse-stepi"}, "[N]", "the event before", times((*Session).step, -1)},
		{"n", []string{"next"}, "[N]", "the next event of the focus", times((*Session).nth, 1)},
		{"N", []string{"rn", "reverse-next"}, "[N]", "the event of the focus before", times((*Session).nth, -1)},
		{"f", []string{"finish"}, "", "to the end of the state that the task is in: of its attempt, its wait", way((*Session).finish, 1)},
		{"F", []string{"reverse-finish"}, "", "back to the event that began that state, or the one before", way((*Session).finish, -1)},
		{"c", []string{"continue"}, "", "to the next place of a breakpoint", way((*Session).run, 1)},
		{"C", []string{"rc", "reverse-continue"}, "", "back to the last one before", way((*Session).run, -1)},
		{"g", []string{"until", "goto"}, "WHERE", "to a sequence, a time, -10m or +30s, start, end, or a mark", (*Session).goTo},
		{"b", []string{"break", "condition", "info"}, "[WHAT]", "set a breakpoint: `type T`, `state S`, `node N`, `late`, `broken [RULE]`, each with `if EXPRESSION`, or an expression; alone: list them", (*Session).set},
		{"x", []string{"delete", "clear"}, "N|all", "remove a breakpoint", plain((*Session).remove)},
		{"w", []string{"watch"}, "FIELD", "to the next event that changes a field of the focus, as `w state`", text((*Session).field, 1)},
		{"w!", []string{"W", "rw"}, "FIELD", "back to the event that wrote the value that it has", text((*Session).field, -1)},
		{"o", []string{"thread", "focus"}, "[KIND ID|all]", "look at a task, node, queue, schedule or limit", plain((*Session).look)},
		{"/", []string{"find", "search"}, "TEXT", "to the next event whose message has a text", text((*Session).find, 1)},
		{"/!", []string{"rfind", "reverse-search"}, "TEXT", "back to the last one before", text((*Session).find, -1)},
		{"k", []string{"bt", "backtrace", "where"}, "", "the causes of the event, upwards", alone((*Session).causes)},
		{"K", []string{"down"}, "", "what followed from it", alone((*Session).effects)},
		{"p", []string{"print"}, "EXPRESSION", "what an expression is here, as `p task.state`", plain((*Session).print)},
		{"m", []string{"mark", "check", "checkpoint"}, "[NAME [NOTE]]", "mark the point", plain((*Session).bookmark)},
		{"'", []string{"restart", "jump"}, "[NAME]", "go to a mark; alone: list them", (*Session).jump},
		{".", []string{"when", "frame"}, "", "where the point is, once more", func(x *Session, ctx context.Context, _ string) (*Answer, error) { return x.shown(ctx, true, "") }},
		{"?", []string{"help", "h"}, "", "the commands", func(*Session, context.Context, string) (*Answer, error) { return &Answer{Help: commands}, nil }},
		{"q", []string{"quit", "exit"}, "", "end", func(*Session, context.Context, string) (*Answer, error) { return &Answer{Quit: true}, nil }},
	}
}

// Commands returns the commands of a session.
func Commands() []Command { return slices.Clone(commands) }

// reverse are the backward commands by forward ones: `rev CMD` runs one of them.
var reverse = map[string]string{"s": "S", "n": "N", "f": "F", "c": "C", "w": "w!", "/": "/!"}

// Do runs a command. An error explains the fault; the session then has not moved.
func (x *Session) Do(ctx context.Context, line string) (*Answer, error) {
	c, rest, err := parse(line)
	if err != nil {
		return nil, err
	}
	return c.do(x, ctx, rest)
}

// Known refuses a line without a known command.
func Known(line string) error {
	_, _, err := parse(line)
	return err
}

// parse finds the command of a line, and its arguments.
func parse(line string) (c *Command, rest string, err error) {
	line = strings.TrimSpace(line)
	name, rest, _ := strings.Cut(line, " ")
	if len(name) > 1 && name[0] == '/' && name != "/!" { // a text without a space
		name, rest = "/", line[1:]
	}
	if len(name) > 1 && name[0] == '\'' { // a mark without a space
		name, rest = "'", name[1:]
	}
	back := name == "rev" || name == "reverse"
	if back {
		name, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
	}
	if c, err = commandOf(name); err != nil {
		return nil, "", err
	}
	if back {
		other, ok := reverse[c.Key]
		if !ok {
			return nil, "", fmt.Errorf("%s does not go backwards: s, n, f, c, w and / do", name)
		}
		c, err = commandOf(other)
	}
	if name == "info" { // breakpoints
		rest = ""
	}
	return c, strings.TrimSpace(rest), err
}

func commandOf(name string) (*Command, error) {
	var names []string
	for i := range commands {
		c := &commands[i]
		if c.Key == name || slices.Contains(c.Also, name) {
			return c, nil
		}
		names = append(names, c.Also...)
	}
	if meant := value.Word(name, names); meant != "" {
		return nil, fmt.Errorf("there is no command %q: did you mean %s? `?` lists them", name, meant)
	}
	return nil, fmt.Errorf("there is no command %q; `?` lists them", name)
}

// Split splits a line into its commands at semicolons outside quotation marks.
func Split(line string) (all []string) {
	begun, quote := 0, rune(0)
	add := func(end int) {
		if c := strings.TrimSpace(line[begun:end]); c != "" {
			all = append(all, c)
		}
	}
	for i, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '`':
			quote = r
		case r == ';':
			add(i)
			begun = i + 1
		}
	}
	add(len(line))
	return all
}

// times makes a command that moves as many steps as its argument says.
func times(f func(*Session, context.Context, int) (*Answer, error), sign int) func(*Session, context.Context, string) (*Answer, error) {
	return func(x *Session, ctx context.Context, rest string) (*Answer, error) {
		n := 1
		if rest != "" {
			var err error
			if n, err = strconv.Atoi(rest); err != nil || n < 1 {
				return nil, fmt.Errorf("%q is no number of steps: want 1 or more", rest)
			}
		}
		return f(x, ctx, sign*n)
	}
}

func way(f func(*Session, context.Context, int) (*Answer, error), sign int) func(*Session, context.Context, string) (*Answer, error) {
	return func(x *Session, ctx context.Context, _ string) (*Answer, error) { return f(x, ctx, sign) }
}

func text(f func(*Session, context.Context, int, string) (*Answer, error), sign int) func(*Session, context.Context, string) (*Answer, error) {
	return func(x *Session, ctx context.Context, rest string) (*Answer, error) { return f(x, ctx, sign, rest) }
}

func plain(f func(*Session, string) (*Answer, error)) func(*Session, context.Context, string) (*Answer, error) {
	return func(x *Session, _ context.Context, rest string) (*Answer, error) { return f(x, rest) }
}

func alone(f func(*Session) (*Answer, error)) func(*Session, context.Context, string) (*Answer, error) {
	return func(x *Session, _ context.Context, _ string) (*Answer, error) { return f(x) }
}
