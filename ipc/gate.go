package ipc

import "crypto/subtle"

// Keyless is how much of what a process prints counts without the key of its attempt, from the most
// to the least.
type Keyless uint8

const (
	// KeylessAll lets every message count.
	KeylessAll Keyless = iota
	// KeylessRecords lets records count, and reports.
	KeylessRecords
	// KeylessReports lets reports count: STATUS, PROGRESS, METRIC and LOG. They are shown, and
	// nothing follows from them.
	KeylessReports
	// KeylessNone lets no message count without the key.
	KeylessNone
	// KeylessOff lets no message count at all, not even with the key.
	KeylessOff
)

// Gate tells the messages of a program from text that it only passes on. The zero value lets every
// message count.
type Gate struct {
	// Key is the word that a message must carry in its field "key"; "" if no word will do.
	Key string
	// Keyless is what counts without it.
	Keyless Keyless
	// Turns is set for a resident program. It holds the key instead of Key.
	Turns *Turns `json:"-"`
}

// opens tells whether a message counts that came with a key. One that counts without the right one
// becomes bare, and loses its id, unless everything counts.
func (g *Gate) opens(m *Message, key []byte) bool {
	if g.Turns != nil {
		return g.opensNow(m, key)
	}
	switch {
	case g.Keyless == KeylessAll:
	case g.Keyless == KeylessOff:
		return false
	case g.Key != "" && subtle.ConstantTimeCompare(key, []byte(g.Key)) == 1:
	case g.Keyless > Most(m.Type):
		return false
	default:
		m.Bare, m.ID = true, ""
	}
	return true
}

// Most returns the strictest rule under which a type counts without the key.
func Most(typ string) Keyless {
	switch typ {
	case TypeStatus, TypeProgress, TypeMetric, TypeLog:
		return KeylessReports
	case TypeInsertData:
		return KeylessRecords
	}
	return KeylessAll
}

// plain returns the text of a JSON string without escapes; nil for anything else.
func plain(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// withholds returns the type of the first message of a line that does not count, for then the whole
// line is text; "" if all of them count.
func (g *Gate) withholds(f *flat) string {
	if end := (Message{Type: TypeResult}); f.ends && !g.opens(&end, f.key) {
		return "complete"
	}
	for i := range f.all {
		if !g.opens(&f.all[i], f.key) {
			return f.all[i].Type
		}
	}
	return ""
}
