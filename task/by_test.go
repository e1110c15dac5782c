package task

import (
	"reflect"
	"testing"
)

// Every sequence that a decision names counts, wherever it stands.
func TestByLatest(t *testing.T) {
	t.Parallel()
	var visit func(v reflect.Value, path string, of func() uint64)
	visit = func(v reflect.Value, path string, of func() uint64) {
		for i := range v.NumField() {
			field, name := v.Field(i), path+v.Type().Field(i).Name
			switch {
			case name == "Calendar": // a revision
			case field.Kind() == reflect.Uint64:
				field.SetUint(7)
				if of() != 7 {
					t.Errorf("%s is left out", name)
				}
				field.SetUint(0)
			case field.Type() == reflect.TypeFor[[]uint64]():
				field.Set(reflect.ValueOf([]uint64{0, 7, 1}))
				if of() != 7 {
					t.Errorf("%s is left out", name)
				}
				field.SetZero()
			case field.Type() == reflect.TypeFor[*Known](), field.Type() == reflect.TypeFor[*LeaseBy]():
				field.Set(reflect.New(field.Type().Elem()))
				visit(field.Elem(), name+".", of)
			}
		}
	}
	var by By
	visit(reflect.ValueOf(&by).Elem(), "", by.Latest)
}
