package verify

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"millrace/task"
)

// Whatever a story of a waiting task knows is either packed, or keeps it from being packed. Each
// field in turn gets another value, also one that is added to the type later.
func TestWhatIsPackedComesBack(t *testing.T) {
	known := func() *story {
		s := &story{id: "01JNAT00000000000000000001", brief: brief{born: true, undue: true, bornAt: 7}, byOthers: true, offers: []offer{{seq: 7}}}
		s.now.state, s.now.seq, s.now.submitted = task.Pending, 7, 1
		return s
	}
	packs := 0
	leaves(reflect.ValueOf(known()).Elem(), nil, func(path []int) {
		s := known()
		v := reflect.ValueOf(s).Elem()
		if slices.Contains([]string{"id", "spot", "kept"}, v.Type().Field(path[0]).Name) {
			return // where it is, and not what it knows
		}
		change(t, v.FieldByIndex(path))
		all := newPackedTasks()
		if all.unpack(s) || !s.spot.fits {
			t.Fatal("a task is packed before it was put")
		}
		if !s.packs() {
			return
		}
		packs++
		all.put(s)
		back := &story{id: s.id}
		if !all.unpack(back) || !reflect.DeepEqual(back, s) {
			t.Errorf("%s was lost:\n%+v\n%+v", v.Type().FieldByIndex(path).Name, *s, *back)
		}
	})
	if packs < 20 {
		t.Errorf("with only %d fields the story is packed", packs)
	}
}

// leaves calls each for every field of a struct that is no struct itself.
func leaves(v reflect.Value, path []int, each func(path []int)) {
	if v.Kind() != reflect.Struct {
		each(path)
		return
	}
	for i := range v.NumField() {
		leaves(v.Field(i), append(slices.Clip(path), i), each)
	}
}

// change gives a field another value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		t.Fatalf("give %s another value here", v.Type())
	}
}
