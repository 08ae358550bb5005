package elsewhere

import (
	"math/rand"
	"time"
)

func now() (time.Time, int) { return time.Now(), rand.Int() }
