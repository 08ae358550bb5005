package main

import (
	"encoding/json"
	"os"
	"time"
)

// ackFile is the record that the host reads: the last acknowledged number, its time, and the longest time
// between two acknowledgements.
type ackFile struct {
	Number  uint64        `json:"number"`
	At      int64         `json:"at"`      // Unix nanoseconds
	Longest time.Duration `json:"longest"` // nanoseconds
	// LongestFrom is the number after which the longest pause was.
	LongestFrom uint64 `json:"longest_from"`
	Error       string `json:"error,omitempty"` // that ended the writing
	file        *os.File
}

// recordBytes is the fixed length of the file, so that a reader never sees half of a record.
const recordBytes = 512

func openAcks(path string) (*ackFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ackFile{file: f}, nil
}

// acknowledged notes a number.
func (a *ackFile) acknowledged(number uint64) error {
	now := time.Now().UnixNano()
	if pause := time.Duration(now - a.At); a.At != 0 && pause > a.Longest {
		a.Longest, a.LongestFrom = pause, a.Number
	}
	a.Number, a.At = number, now
	return a.write()
}

// failed notes why the writing ended.
func (a *ackFile) failed(why error) error {
	a.Error = why.Error()
	return a.write()
}

// write replaces the record with one call, which the host's page cache takes atomically.
func (a *ackFile) write() error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	record := make([]byte, recordBytes)
	for i := range record {
		record[i] = ' '
	}
	copy(record, text[:min(len(text), recordBytes)])
	_, err = a.file.WriteAt(record, 0)
	return err
}
