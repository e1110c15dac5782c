// Package form writes values as JSON objects and reads them back. The fields of the Go type and
// their json tags define the object: an added field is written and read automatically.
// encoding/json does the same with the same tags; a form is for data that is written and read by
// the million. It analyses the type once, takes strings from the text without copying them, and
// lets its caller inspect each field: for null, for repetition, and for unknown names.
//
// It supports texts, numbers, booleans, times, lists, maps by names, pointers, structs, raw JSON
// and all types that marshal themselves; a type with anything else has no form. Empty fields are
// left out if their tag says omitzero or omitempty. A list or map without elements is empty in
// either case.
package form
