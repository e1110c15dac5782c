// Package form writes values as JSON objects and reads them back. Which fields there are say the fields of
// the Go type, and what they are called its json tags: a field that is added there is written and read
// from then on. encoding/json does the same of the same tags; a form is for what is written and read by the
// million. It works out once what the type has, takes strings from the text without copying them,
// and lets its user look at each field: for null, for one that is there twice, and for one that nobody knows.
//
// It knows texts, numbers, truth values, times, lists, maps by names, pointers, structs, JSON as it is
// and all that marshals itself; of a type with anything else no form can be made. Empty fields are
// left out if their tag says omitzero or omitempty, and a list or map of nothing is empty in either case.
package form
