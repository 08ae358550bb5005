package fsm

import (
	_ "bufio"
	_ "context"     // want `import of context`
	_ "crypto/rand" // want `import of crypto/rand`
	_ "crypto/sha256"
	_ "database/sql" // want `import of database/sql`
	_ "embed"        // want `import of embed`
	_ "hash/maphash" // want `import of hash/maphash`
	_ "io"
	_ "io/ioutil" // want `import of io/ioutil`
	_ "log"       // want `import of log`
	_ "log/slog"  // want `import of log/slog`
	_ "maps"      // want `import of maps`
	_ "math/bits"
	_ "math/rand"    // want `import of math/rand`
	_ "math/rand/v2" // want `import of math/rand/v2`
	_ "net"          // want `import of net`
	_ "net/http"     // want `import of net/http`
	_ "os"           // want `import of os`
	_ "os/exec"      // want `import of os/exec`
	_ "reflect"      // want `import of reflect`
	_ "runtime"      // want `import of runtime`
	_ "sync"         // want `import of sync`
	_ "sync/atomic"  // want `import of sync/atomic`
	_ "syscall"      // want `import of syscall`
	_ "time"
	_ "unsafe" // want `import of unsafe`

	_ "example.com/dice" // want `import of example.com/dice`
)
