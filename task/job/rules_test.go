package job

import (
	"reflect"
	"strings"
	"testing"
)

// Every rule fills in its whole entry, and copies exactly the fields that it has.
func TestRules(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Rules {
		t.Run(r.Name, func(t *testing.T) {
			if names[r.Name] {
				t.Error("it stands in the table twice")
			}
			names[r.Name] = true
			switch r.Question {
			case Condition, Quota, Valve, Choice:
			default:
				t.Errorf("its question is %q", r.Question)
			}
			if r.Has(&Spec{}) {
				t.Error("a spec without anything has it")
			}
			with := &Spec{}
			set(t, with, r.Name)
			if !r.Has(with) {
				t.Errorf("a spec with %s does not have it", r.Name)
			}
			if is := with.Ruled(); !reflect.DeepEqual(is, with) {
				t.Errorf("of %+v it takes over %+v", with, is)
			}
			if is := with.Unkeyed(); r.Has(&is) == r.Keyed {
				t.Errorf("without what has keys %+v is %+v", with, is)
			}
			with.Steps = []Step{{}}
			if err := with.Validate(); err == nil || !strings.Contains(err.Error(), r.Name+" is for what runs") {
				t.Errorf("a job with steps that has it is refused with %v", err)
			}
		})
	}
	if is := (&Spec{Handler: "h"}).Ruled(); is != nil {
		t.Errorf("a spec without rules has %+v", is)
	}
}

// set sets the field of a job file in a spec.
func set(t *testing.T, s *Spec, name string) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag != name {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(1)
		case reflect.Struct:
			f.Field(0).SetString("x")
		default:
			t.Fatalf("a field that is a %v: this test knows none", f.Kind())
		}
		return
	}
	t.Fatalf("no field of a spec is called %q", name)
}
