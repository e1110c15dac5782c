package incident

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
)

// An incident file is a sequence of blocks, each readable without the others. A block is a
// skippable zstd frame with the head below, and a zstd frame with lines of JSON. So `zstd -dc FILE`
// prints the lines on any system.
//
//	magic(4) length(4) "MRIF" version(1) section(1) 0(2) number(4) lines(4)
//	first(8) last(8) packed(4) unpacked(4) sum of the frame(4) sum of this(4)
//
// All numbers are little-endian, and the sums are CRC-32C. Number counts the blocks from 0; first
// and last are sequences of facts. The manifest comes first, then facts, output, the index with the
// number of facts of each subject, and the end. The end lists the blocks before it and repeats the
// manifest. Notes and another end are appended later: the last intact end counts.

// Version is the version in which the form is written.
const Version = 1

// Section is the kind of a block's content.
type Section uint8

// The sections.
const (
	SectionManifest Section = iota + 1
	SectionFacts            // lines of an export
	SectionOutput           // output of tasks
	SectionNotes            // notes of people
	SectionEnd              // the list of blocks
	SectionIndex            // the number of facts of each subject
	SectionResults          // results of steps that the log keeps apart
)

var sectionNames = [...]string{SectionManifest: "manifest", SectionFacts: "facts", SectionOutput: "output", SectionNotes: "notes", SectionEnd: "end", SectionIndex: "index", SectionResults: "results"}

func (s Section) String() string {
	if s > 0 && int(s) < len(sectionNames) {
		return sectionNames[s]
	}
	return fmt.Sprintf("section %d", uint8(s))
}

// Block identifies a block of a file.
type Block struct {
	Section Section `json:"section"`
	Number  uint32  `json:"number"`
	Lines   uint32  `json:"lines"`
	First   uint64  `json:"first,omitempty"`
	Last    uint64  `json:"last,omitempty"`
}

const (
	skippable = 0x184D2A5D // one of the magic numbers of frames that zstd readers skip
	headSize  = 8 + 48
	sumAt     = headSize - 4
	// maxBlock is the largest unpacked size of a block: the largest message that a NATS server
	// accepts is 64 MB, in base64.
	maxBlock = 128 << 20
	// A block ends when it is a sixteenth of all before it, within these bounds. Damage loses whole
	// blocks, and large blocks pack better.
	blockShare = 16
	minBlock   = 4 << 10
	// usualPacking is by how much a block is seldom smaller than its lines.
	usualPacking = 32
	maxLines     = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// lead is the beginning of each block.
var lead = func() []byte {
	b := binary.LittleEndian.AppendUint32(nil, skippable)
	b = binary.LittleEndian.AppendUint32(b, headSize-8)
	return append(b, "MRIF"...)
}()

// appendBlock appends a block with some lines.
func appendBlock(dst []byte, enc *zstd.Encoder, b Block, lines []byte) []byte {
	packed := enc.EncodeAll(lines, nil)
	le := binary.LittleEndian
	head := append(bytes.Clone(lead), Version, byte(b.Section), 0, 0)
	head = le.AppendUint32(head, b.Number)
	head = le.AppendUint32(head, b.Lines)
	head = le.AppendUint64(head, b.First)
	head = le.AppendUint64(head, b.Last)
	head = le.AppendUint32(head, uint32(len(packed))) // a block is smaller
	head = le.AppendUint32(head, uint32(len(lines)))  // a block is smaller
	head = le.AppendUint32(head, crc32.Checksum(packed, castagnoli))
	head = le.AppendUint32(head, crc32.Checksum(head, castagnoli))
	return append(append(dst, head...), packed...)
}

// head is the part before the frame of a block.
type head struct {
	Block
	version          uint8
	packed, unpacked uint32
	sum              uint32
}

// readHead reads the head at the beginning of b; false if there is no intact one.
func readHead(b []byte) (h head, ok bool) {
	if len(b) < headSize || !bytes.HasPrefix(b, lead) {
		return h, false
	}
	le := binary.LittleEndian
	if crc32.Checksum(b[:sumAt], castagnoli) != le.Uint32(b[sumAt:]) {
		return h, false
	}
	h = head{version: b[12], packed: le.Uint32(b[40:]), unpacked: le.Uint32(b[44:]), sum: le.Uint32(b[48:])}
	h.Block = Block{Section(b[13]), le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint64(b[24:]), le.Uint64(b[32:])}
	return h, true
}

var (
	errCut  = errors.New("the file is cut there")
	errSum  = errors.New("it is damaged: its checksum is another one")
	errSize = errors.New("it is damaged: it says that it is larger than any block")
)

// lines returns the lines of the block whose head is at the beginning of b.
func (h *head) lines(b []byte, dec *zstd.Decoder) ([]byte, error) {
	b = b[headSize:]
	switch {
	case h.unpacked > maxBlock:
		return nil, errSize
	case uint64(h.packed) > uint64(len(b)):
		return nil, errCut
	case crc32.Checksum(b[:h.packed], castagnoli) != h.sum:
		return nil, errSum
	}
	// The decoder ends at the capacity that it is given. A claim alone takes no memory: most blocks are
	// packed to less than a thirtieth.
	room := min(int(h.unpacked), usualPacking*int(h.packed)+minBlock)
	lines, err := dec.DecodeAll(b[:h.packed], make([]byte, 0, room))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) && room < int(h.unpacked) {
		lines, err = dec.DecodeAll(b[:h.packed], make([]byte, 0, h.unpacked))
	}
	if err != nil || len(lines) != int(h.unpacked) {
		return nil, errSum
	}
	return lines, nil
}
