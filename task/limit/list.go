package limit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"millrace/task/value"
)

// MaxEntries bounds the entries of [Concurrencies] and of [Rates].
const MaxEntries = 8

// Concurrencies are the concurrency bounds of a task: it starts when all of them have a place, and
// takes all these places at once. In JSON a single one may stand without the list.
type Concurrencies []Concurrency

// Rates are the rates of a task: it starts when all of them admit it. All jobs that share a key
// must list its rates in the same order, for example ten per second and then a thousand per day. In
// JSON a single one may stand without the list.
type Rates []Rate

// MarshalJSON writes a single one without the list, the form from before there were lists.
func (c Concurrencies) MarshalJSON() ([]byte, error) { return marshalFew(c) }

// MarshalJSON writes a single one without the list, the form from before there were lists.
func (r Rates) MarshalJSON() ([]byte, error) { return marshalFew(r) }

// UnmarshalJSON reads a list, or a single one without it; {} is an empty list.
func (c *Concurrencies) UnmarshalJSON(data []byte) (err error) {
	*c, err = unmarshalFew[Concurrency](data)
	return err
}

// UnmarshalJSON reads a list, or a single one without it; {} is an empty list.
func (r *Rates) UnmarshalJSON(data []byte) (err error) {
	*r, err = unmarshalFew[Rate](data)
	return err
}

func marshalFew[T any](list []T) ([]byte, error) {
	if len(list) == 1 {
		return json.Marshal(list[0])
	}
	if list == nil {
		list = []T{}
	}
	return json.Marshal(list)
}

func unmarshalFew[T comparable](data []byte) ([]T, error) {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		list := []T{}
		return list, json.Unmarshal(data, &list)
	}
	var one, none T
	if err := json.Unmarshal(data, &one); err != nil || one == none {
		return []T{}, err
	}
	return []T{one}, nil
}

// Validate refuses invalid bounds, and names the field of each.
func (c Concurrencies) Validate() error {
	if len(c) > MaxEntries {
		return fmt.Errorf("concurrency has %d entries, want at most %d", len(c), MaxEntries)
	}
	var all error
	for i, one := range c {
		all = value.JoinFaults(all, one.validate(EntryName("concurrency", i, len(c))))
	}
	return all
}

// Validate refuses invalid rates, and names the field of each.
func (r Rates) Validate() error {
	if len(r) > MaxEntries {
		return fmt.Errorf("rate has %d entries, want at most %d", len(r), MaxEntries)
	}
	var all error
	for i, one := range r {
		all = value.JoinFaults(all, one.Validate(EntryName("rate", i, len(r))))
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
