package isolated

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// vdso is the code that the kernel maps into a process of Go, with which the process reads the clocks without a call. What is run in its
// place is written over a function there that Go does not use, so that a thread that reads the clock meanwhile is not disturbed, and Go's
// own variable is made to point to it.
type vdso struct {
	pid    int
	clock  uint64   // where the kernel's clock_gettime is
	slots  []uint64 // where there is room for code
	points []uint64 // where the process keeps the address of what it runs
	now    uint64   // what they hold
}

// ErrNoClock: the clock of one process alone cannot be stepped on this kind of machine.
var ErrNoClock = errors.New("the clock of one process can be stepped on amd64 only")

// findVDSO finds it in a process.
func findVDSO(pid int) (*vdso, error) {
	if runtime.GOARCH != "amd64" {
		return nil, ErrNoClock
	}
	v := &vdso{pid: pid}
	maps, err := mappings(pid)
	if err != nil {
		return nil, err
	}
	if err := v.findFunctions(maps); err != nil {
		return nil, fmt.Errorf("find how process %d reads the clocks: %w", pid, err)
	}
	if err := v.findPointers(maps); err != nil {
		return nil, fmt.Errorf("find how process %d reads the clocks: %w", pid, err)
	}
	return v, nil
}

// findFunctions finds clock_gettime, and gettimeofday whose room is taken.
func (v *vdso) findFunctions(maps []mapping) error {
	i := slices.IndexFunc(maps, func(m mapping) bool { return m.name == "[vdso]" })
	if i < 0 {
		return errors.New("it has no vDSO")
	}
	code, err := v.read(maps[i])
	if err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	for _, s := range symbols {
		switch at := maps[i].begin + s.Value; s.Name {
		case "__vdso_clock_gettime":
			v.clock = at
		case "__vdso_gettimeofday":
			for n := uint64(0); n+slotSize <= s.Size; n += slotSize {
				v.slots = append(v.slots, at+n)
			}
		}
	}
	if v.clock == 0 || len(v.slots) < 2 {
		return errors.Join(errors.New("its vDSO has no clock_gettime, or no room"), err)
	}
	return nil
}

// findPointers finds the variables that hold where the clock is read, in the data of the program.
func (v *vdso) findPointers(maps []mapping) error {
	known := append([]uint64{v.clock}, v.slots...)
	for i, m := range maps {
		if m.rights[:2] != "rw" || !ofProgram(maps, i) {
			continue
		}
		data, err := v.read(m)
		if err != nil {
			return err
		}
		for at := 0; at+8 <= len(data); at += 8 {
			if value := binary.LittleEndian.Uint64(data[at:]); slices.Contains(known, value) {
				v.points, v.now = append(v.points, m.begin+uint64(at)), value
			}
		}
	}
	if len(v.points) == 0 {
		return errors.New("no variable of it points to the vDSO's clock_gettime: is it a program of Go?")
	}
	return nil
}

// ofProgram tells whether a mapping is of the program's file, or of its variables without a value right behind it.
func ofProgram(maps []mapping, i int) bool {
	if maps[i].name == maps[0].name {
		return true
	}
	return maps[i].name == "" && i > 0 && maps[i].begin == maps[i-1].end && maps[i-1].name == maps[0].name
}

// run has the process run code in place of what it runs now.
func (v *vdso) run(code []byte) error {
	if len(code) > slotSize {
		return fmt.Errorf("%d bytes of code in a slot of %d", len(code), slotSize)
	}
	slot := v.slots[(slices.Index(v.slots, v.now)+1)%len(v.slots)]
	return v.access(func(mem *os.File) error {
		if _, err := mem.WriteAt(code, int64(slot)); err != nil {
			return err
		}
		for _, at := range v.points {
			if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, slot), int64(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// access opens the process's memory.
func (v *vdso) access(do func(*os.File) error) (err error) {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", v.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	return do(mem)
}

func (v *vdso) read(m mapping) ([]byte, error) {
	content := make([]byte, m.end-m.begin)
	err := v.access(func(mem *os.File) error { _, err := mem.ReadAt(content, int64(m.begin)); return err })
	return content, err
}

// mapping is one line of a process's memory map.
type mapping struct {
	begin, end   uint64
	rights, name string
}

func mappings(pid int) (maps []mapping, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		from, to, _ := strings.Cut(fields[0], "-")
		begin, beginErr := strconv.ParseUint(from, 16, 64)
		end, endErr := strconv.ParseUint(to, 16, 64)
		if err := errors.Join(beginErr, endErr); err != nil {
			return nil, err
		}
		maps = append(maps, mapping{begin, end, fields[1], strings.Join(fields[min(5, len(fields)):], " ")})
	}
	if len(maps) == 0 {
		return nil, fmt.Errorf("process %d has no memory: it ended", pid)
	}
	return maps, nil
}
