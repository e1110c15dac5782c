package limit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"millrace/task/value"
)

// MaxEntries bounds the entries of a [List].
const MaxEntries = 8

// Concurrencies are the concurrency bounds of a task: it starts when all of them have a place, and
// takes all these places at once.
type Concurrencies = List[Concurrency]

// Budgets are the budgets of a task: it starts when none of them is used up.
type Budgets = List[Budget]

// Rates are the rates of a task: it starts when all of them admit it. All jobs that share a key
// must list its rates in the same order, for example ten per second and then a thousand per day.
type Rates = List[Rate]

// PerNodes are the per-node bounds of a task: it starts where all of them have a place.
type PerNodes = List[PerNode]

// List holds the bounds of one kind. In JSON a single one may stand without the list.
type List[T bound] []T

// bound is an entry of a [List].
type bound interface {
	comparable
	// Validate refuses an invalid bound, in a field of this name.
	Validate(field string) error
	// Words describes in words what the bound allows.
	Words() string
	// key is the key that splits the bound; "" for none.
	key() string
}

// Key is a key of a bound, and the field that holds it.
type Key struct{ Field, Text string }

// MarshalJSON writes a single one without the list, the form from before there were lists.
func (l List[T]) MarshalJSON() ([]byte, error) {
	switch {
	case len(l) == 1:
		return value.JSON(l[0])
	case l == nil:
		return []byte("[]"), nil
	}
	return value.JSON([]T(l))
}

// FormOf implements [value.Formed].
func (l *List[T]) FormOf(data []byte) any {
	if data[0] == '[' {
		return []T{}
	}
	var one T
	return one
}

// UnmarshalJSON reads a list, or a single one without it; {} is an empty list.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		list := []T{}
		err := json.Unmarshal(data, &list)
		*l = list
		return err
	}
	var one, none T
	if err := json.Unmarshal(data, &one); err != nil || one == none {
		*l = List[T]{}
		return err
	}
	*l = List[T]{one}
	return nil
}

// Validate refuses invalid bounds in a field of this name, and names the field of each.
func (l List[T]) Validate(field string) error {
	if len(l) > MaxEntries {
		return fmt.Errorf("%s has %d entries, want at most %d", field, len(l), MaxEntries)
	}
	var all error
	for i, one := range l {
		all = value.JoinFaults(all, one.Validate(EntryName(field, i, len(l))))
	}
	return all
}

// Keys returns the keys of the bounds in a field of this name.
func (l List[T]) Keys(field string) (all []Key) {
	for i, one := range l {
		if text := one.key(); text != "" {
			all = append(all, Key{EntryName(field, i, len(l)) + ".key", text})
		}
	}
	return all
}

// Words describes in words what each bound allows.
func (l List[T]) Words() (all []string) {
	for _, one := range l {
		all = append(all, one.Words())
	}
	return all
}

// EntryName is the display name of an entry: a field with one entry is shown without an index.
func EntryName(field string, i, of int) string {
	if of == 1 {
		return field
	}
	return fmt.Sprintf("%s[%d]", field, i)
}
