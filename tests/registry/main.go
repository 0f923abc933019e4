// Command registry is the CNCF Distribution registry with what the tests use
// of it: files for storage, and passwords or tokens for access. (The program
// that comes with it also links the clients of three clouds.) Beside it are, as
// `registry tokens`, the server that gives out its tokens, and `registry
// htpasswd USER PASSWORD`, which prints a line for its file of passwords.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"golang.org/x/crypto/bcrypt"
)

func main() {
	var err error
	command, rest := "", []string{}
	if len(os.Args) > 1 {
		command, rest = os.Args[1], os.Args[2:]
	}
	switch command {
	case "tokens":
		err = serveTokens(rest)
	case "htpasswd":
		err = printLogin(rest)
	default:
		err = registry.RootCmd.Execute()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

// printLogin hashes a password as the registry compares it.
func printLogin(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: registry htpasswd USER PASSWORD")
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(args[1]), bcrypt.MinCost)
	if err != nil {
		return err
	}
	fmt.Printf("%s:%s\n", args[0], hash)
	return nil
}
