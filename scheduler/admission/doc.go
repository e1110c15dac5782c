// Package admission chooses which tasks their limits admit, by what one scheduler knows of them. It records nothing, waits for
// nobody and reads no clock.
package admission
