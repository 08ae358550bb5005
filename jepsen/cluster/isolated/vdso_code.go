package isolated

import (
	"encoding/binary"
	"time"
)

// slotSize is how many bytes clockCode takes at most.
const slotSize = 96

// clockCode is clock_gettime(rdi: clock, rsi: result) for amd64, which asks the kernel and adds an offset to the wall clock.
func clockCode(offset time.Duration) []byte {
	seconds, nanos := int64(offset/time.Second), int64(offset%time.Second)
	if nanos < 0 {
		seconds, nanos = seconds-1, nanos+int64(time.Second)
	}
	add := []byte{0x48, 0xb9} // mov rcx, seconds
	add = binary.LittleEndian.AppendUint64(add, uint64(seconds))
	add = append(add, 0x48, 0x01, 0x0e, // add [rsi], rcx
		0x48, 0xc7, 0xc1) // mov rcx, nanoseconds
	add = binary.LittleEndian.AppendUint32(add, uint32(nanos))
	add = append(add, 0x48, 0x03, 0x4e, 0x08, // add rcx, [rsi+8]
		0x48, 0x81, 0xf9, 0x00, 0xca, 0x9a, 0x3b, // cmp rcx, 1000000000
		0x7c, 10, // jl store
		0x48, 0x81, 0xe9, 0x00, 0xca, 0x9a, 0x3b, // sub rcx, 1000000000
		0x48, 0xff, 0x06, // inc qword [rsi]
		0x48, 0x89, 0x4e, 0x08) // store: mov [rsi+8], rcx
	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228: clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, byte(len(add)), // jnz the end
	}
	return append(append(code, add...), 0xc3) // the end: ret
}
