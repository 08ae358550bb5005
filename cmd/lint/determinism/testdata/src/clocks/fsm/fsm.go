package fsm

import (
	"time"
	clock "time"
)

func reads(at time.Time) []time.Time {
	later := time.Now       // want `time.Now`
	_ = time.Since(at)      // want `time.Since`
	_ = time.Until(at)      // want `time.Until`
	time.Sleep(time.Second) // want `time.Sleep`
	_ = clock.Now()         // want `time.Now`
	_ = at.Local()          // want `time.Local`
	_ = at.In(time.Local)   // want `time.Local`
	return []time.Time{later()}
}

func waits() {
	_ = time.NewTimer(1)               // want `time.NewTimer`
	_ = time.NewTicker(1)              // want `time.NewTicker`
	_ = time.Tick(1)                   // want `time.Tick`
	_ = time.After(1)                  // want `time.After`
	time.AfterFunc(1, func() {})       // want `time.AfterFunc`
	_, _ = time.LoadLocation("Europe") // want `time.LoadLocation`
}

func computes(nanos int64, at time.Time) bool {
	return time.Unix(0, nanos).UTC().Add(time.Minute).After(at)
}
