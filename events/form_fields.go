package events

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/mailru/easyjson/jlexer"

	"millrace/task"
)

// A field is made of its name and of where in the event it lies.

func text[E any, S ~string](name string, in func(*E) *S) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.str(name, string(*in(e))) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = S(l.UnsafeString()) }}
}

func number[E any](name string, in func(*E) *int) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.num(name, *in(e)) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = signed(l) }}
}

// sequence is a number of the log, none of which is 0.
func sequence[E any](name string, in func(*E) *uint64) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.seq(name, *in(e)) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = unsigned(l) }}
}

// position is a sequence that is written even where it is 0: before the first.
func position[E any](name string, in func(*E) *uint64) field[E] {
	f := sequence(name, in)
	f.write = func(o *object, e *E) { o.key(name).b = strconv.AppendUint(o.b, *in(e), 10) }
	return f
}

func moment[E any](name string, in func(*E) *time.Time) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.time(name, *in(e)) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = instant(l) }}
}

func span[E any](name string, in func(*E) *task.Duration) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.duration(name, *in(e)) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = value[task.Duration](l) }}
}

func truth[E any](name string, in func(*E) *bool) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.yes(name, *in(e)) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = value[bool](l) }}
}

// code is a number of which 0 says something.
func code[E any](name string, in func(*E) **int) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) {
			if n := *in(e); n != nil {
				o.key(name).b = strconv.AppendInt(o.b, int64(*n), 10)
			}
		},
		read: func(l *jlexer.Lexer, e *E) {
			n := signed(l)
			*in(e) = &n
		}}
}

// given is JSON of somebody else's, kept as it is.
func given[E any](name string, in func(*E) *json.RawMessage) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) { o.raw(name, *in(e)) },
		read:  func(l *jlexer.Lexer, e *E) { *in(e) = raw(l) }}
}

// givenOrNull is given where null is a value, too.
func givenOrNull[E any](name string, in func(*E) *json.RawMessage) field[E] {
	f := given(name, in)
	f.null = true
	return f
}

// part is a value with a form of its own in JSON, left out if it is empty.
func part[E, V any](name string, in func(*E) *V, empty func(V) bool) field[E] {
	return dated(name, in, empty, func(v V) (V, error) { return v, nil })
}

// dated is a part with times in it: inUTC returns it with each of them in UTC, or the
// error of [inUTC].
func dated[E, V any](name string, in func(*E) *V, empty func(V) bool, inUTC func(V) (V, error)) field[E] {
	return field[E]{name: name,
		write: func(o *object, e *E) {
			if v := *in(e); !empty(v) {
				v, err := inUTC(v)
				if err != nil {
					o.fail(fmt.Errorf("%s: %w", name, err))
					return
				}
				o.json(name, v)
			}
		},
		read: func(l *jlexer.Lexer, e *E) {
			if v := value[V](l); !empty(v) {
				v, err := inUTC(v)
				l.AddError(err)
				*in(e) = v
			}
		}}
}

func never[V any](V) bool { return false }

func pointer[E, V any](name string, in func(*E) **V) field[E] {
	return part(name, in, func(v *V) bool { return v == nil })
}

func list[E, V any](name string, in func(*E) *[]V) field[E] {
	return part(name, in, func(v []V) bool { return len(v) == 0 })
}

func table[E, V any](name string, in func(*E) *map[string]V) field[E] {
	return part(name, in, func(v map[string]V) bool { return len(v) == 0 })
}

// always is a part that is written whatever it is.
func always[E, V any](name string, in func(*E) *V) field[E] { return part(name, in, never) }

// of makes fields of a part of an event fields of the event.
func of[E, P any](in func(*E) *P, fields ...field[P]) []field[E] {
	lifted := make([]field[E], 0, len(fields))
	for _, f := range fields {
		lifted = append(lifted, field[E]{name: f.name, null: f.null,
			write: func(o *object, e *E) { f.write(o, in(e)) },
			read:  func(l *jlexer.Lexer, e *E) { f.read(l, in(e)) }})
	}
	return lifted
}
