package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, in text such as "64MiB", "1.5GB" or "4096".
type Size int64

// sizeUnits are in descending order, with the units that String writes first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// ParseSize parses the text form of a size. It ignores case, a lone K, M, G or T counts by 1024,
// and a number without a unit is in bytes.
func ParseSize(text string) (Size, error) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.TrimSpace(text[len(number):])
	factor := int64(0)
	for _, u := range sizeUnits {
		if strings.EqualFold(unit, u.name) || strings.HasSuffix(u.name, "iB") && strings.EqualFold(unit, u.name[:1]) {
			factor = u.bytes
		}
	}
	if unit == "" {
		factor = 1
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || factor == 0 || !(n >= 0) || n*float64(factor) > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is no size: want one such as 64MiB, 1.5GB or 4096", text)
	}
	return Size(n * float64(factor)), nil
}

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && u.bytes > 1 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes the form that UnmarshalText reads.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of [ParseSize].
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}
