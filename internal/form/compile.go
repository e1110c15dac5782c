package form

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/mailru/easyjson/jlexer"
)

// compiler analyses a type.
type compiler struct {
	kinds   map[reflect.Type]codec   // set by an option
	objects map[reflect.Type]*object // known already, or in progress
	without []string
	own     bool
}

// object is the form of a struct. Each of its fields must have a tag with its name.
func (c *compiler) object(t reflect.Type) *object {
	if o, known := c.objects[t]; known {
		return o
	}
	o := &object{}
	c.objects[t] = o
	c.add(o, t)
	o.seal()
	return o
}

// add adds the fields of a struct to the object.
func (c *compiler) add(o *object, t reflect.Type) {
	for _, at := range Fields(t) {
		if o.find(at.Name, 0) >= 0 {
			wrong("%s has two fields %s", t, at.Name)
		}
		f := field{name: at.Name, key: string(AppendString(nil, at.Name)) + ":", offset: at.offset, codec: c.codec(at.Type, at.path)}
		f.always = at.Always
		f.null = f.null || at.null
		o.fields = append(o.fields, f)
	}
}

// codec returns the codec of a type. Path is the path to it.
func (c *compiler) codec(t reflect.Type, path string) codec {
	if k, ok := c.kinds[t]; ok {
		return k
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		if c.own {
			return ownInstant
		}
		return instant
	case reflect.TypeFor[json.RawMessage]():
		if c.own {
			return ownRaw
		}
		return raw
	case reflect.TypeFor[map[string]string]():
		if c.own {
			return ownTexts
		}
		return texts
	}
	p := reflect.PointerTo(t)
	switch {
	case p.Implements(reflect.TypeFor[json.Marshaler]()), p.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return marshalled(t, emptyOf(t, path))
	case Spelled(t):
		if c.own && t.Kind() == reflect.Int64 {
			return long
		}
		return spelled(t, emptyOf(t, path))
	}
	switch t.Kind() {
	case reflect.String:
		if c.own {
			return ownText
		}
		return text
	case reflect.Bool:
		return truth
	case reflect.Int:
		return number
	case reflect.Int64:
		return long
	case reflect.Uint64:
		return unsigned
	case reflect.Float64:
		return marshalled(t, emptyOf(t, path))
	case reflect.Pointer:
		return pointer(t.Elem(), c.codec(t.Elem(), path))
	case reflect.Slice:
		return list(t, c.codec(t.Elem(), path+"[]"))
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return table(t, c.codec(t.Elem(), path+"[]"))
		}
	case reflect.Struct:
		o := c.object(t)
		return codec{empty: o.empty, write: o.write, read: o.read}
	}
	wrong("%s is a %s, which is written in no known way", path, t)
	return codec{}
}

// lexers are pooled, because the functions of fields would make each escape to the heap.
var lexers = pool[jlexer.Lexer]()
