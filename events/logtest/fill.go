package logtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Samples are values for [Fill], for types with invalid values or with a single form.
var Samples = []any{
	task.Abnormal, placement.Selector{{Key: "zone", Op: placement.OpIn, Values: []string{"a", "b"}}},
	limit.Concurrencies{{Max: 2, Key: "a"}}, limit.Rates{{Limit: 3, Per: 4, Burst: 5, Key: "b"}},
	limit.Budgets{{Starts: 6, Run: 7, Per: limit.PerWeek, Timezone: "Europe/Berlin", Key: "c"}},
	node.Ready, node.OrderDrain,
}

// JSONCorpus tests the corpus of a form that is JSON with the fields of a type, as encoding/json
// writes it, and has a single version. Readers ignore unknown fields. Samples are those of [Fill]
// beside [Samples].
func JSONCorpus[T any](t *testing.T, dir string, samples ...any) {
	t.Helper()
	var full T
	Fill(t, &full, append(samples, Samples...)...)
	Kept(t, dir, full)
}

// Kept is [JSONCorpus] for a given value.
func Kept[T any](t *testing.T, dir string, full T) {
	t.Helper()
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Test(t, testkit.Form{Dir: dir, Version: 1, Today: map[string][]byte{"full.json": append(text, '\n')}, Unknown: testkit.Dropped,
		Again: func(written []byte) ([]byte, error) {
			var read T
			if err := json.Unmarshal(written, &read); err != nil {
				return nil, err
			}
			text, err := json.Marshal(read)
			return append(text, '\n'), err
		}})
}

// Fill sets every field of the target of into, at every depth, to a distinct value other than zero.
// So a test that writes the value and reads it back fails as soon as a field is added that the
// writer does not know.
//
// Samples are the values for their types, for types with invalid values. A type that contains
// itself is filled once. Fill fails the test at a kind of field that it cannot fill, and at a field
// that only its own package can set.
func Fill(t testing.TB, into any, samples ...any) {
	t.Helper()
	f := filler{t: t, samples: map[reflect.Type]reflect.Value{}, within: map[reflect.Type]bool{}}
	for _, s := range samples {
		f.samples[reflect.TypeOf(s)] = reflect.ValueOf(s)
	}
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		t.Fatalf("fill: %T is no pointer to a value", into)
	}
	f.fill(v.Elem(), v.Elem().Type().String())
}

// filler is one run of [Fill].
type filler struct {
	t       testing.TB
	samples map[reflect.Type]reflect.Value
	within  map[reflect.Type]bool // the structs that are being filled
	count   int                   // the number of values set, which keeps them distinct
}

var (
	timeType = reflect.TypeFor[time.Time]()
	jsonType = reflect.TypeFor[json.RawMessage]()
)

func (f *filler) fill(v reflect.Value, path string) {
	f.t.Helper()
	if !v.CanSet() {
		f.t.Fatalf("fill: %s cannot be set from outside of its package", path)
	}
	f.count++
	switch sample, given := f.samples[v.Type()]; {
	case given:
		v.Set(sample)
		return
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(time.Date(2026, 8, 1, 12, 0, f.count, 123456789+f.count, time.UTC)))
		return
	case v.Type() == jsonType:
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, f.count))
		return
	case v.Type() == reflect.TypeFor[value.Number]():
		v.SetString(strconv.Itoa(f.count))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("s", f.count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.count))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.count))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(f.count))
	case reflect.Pointer:
		if f.within[v.Type().Elem()] {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, path+" key")
		f.fill(value, path+" value")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if f.within[v.Type()] {
			return
		}
		f.within[v.Type()] = true
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
		delete(f.within, v.Type())
	case reflect.Interface:
		if v.NumMethod() > 0 { // else any value of JSON
			f.t.Fatalf("fill: %s is a %s, which this test does not know", path, v.Type())
		}
		v.Set(reflect.ValueOf(fmt.Sprint("s", f.count)))
	default:
		f.t.Fatalf("fill: %s is a %s, which this test does not know: teach it, and see that what it is for keeps the field", path, v.Kind())
	}
}

// Leaves calls each for every non-zero field of the target of into, at every depth, including
// elements of slices and targets of pointers. Change makes the field zero, and undo restores it.
// Samples are values of types that are treated as a leaf.
func Leaves(t testing.TB, into any, each func(path string, change, undo func()), samples ...any) {
	t.Helper()
	whole := map[reflect.Type]bool{timeType: true, jsonType: true}
	for _, s := range samples {
		whole[reflect.TypeOf(s)] = true
	}
	leaves(reflect.ValueOf(into).Elem(), "", whole, each)
}

func leaves(v reflect.Value, path string, whole map[reflect.Type]bool, each func(path string, change, undo func())) {
	switch {
	case v.IsZero():
		return
	case v.Kind() == reflect.Struct && !whole[v.Type()]:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			at := path + "." + field.Name
			if field.Anonymous {
				at = path
			}
			leaves(v.Field(i), at, whole, each)
		}
		return
	case v.Kind() == reflect.Pointer && !v.IsNil():
		leaves(v.Elem(), path, whole, each)
	case v.Kind() == reflect.Slice && !whole[v.Type()]:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), whole, each)
		}
	}
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	each(path, func() { v.SetZero() }, func() { v.Set(was) })
}
