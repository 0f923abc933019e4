package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// tokens gives out what the registry's token access takes: signed lists of what
// the bearer may do with which repository.
type tokens struct {
	signer   jose.Signer
	issuer   string
	user     string
	password string
	identity string
	public   string
	lifetime time.Duration
}

// serveTokens lets one user do anything, by password (GET) or by identity token
// (POST, as OAuth 2 has it), and everybody pull what lies below --public. Each
// request is a line on standard output.
func serveTokens(args []string) error {
	flags := flag.NewFlagSet("tokens", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	portFile := flags.String("port-file", "", "file to write the listening port to, once it listens")
	keyFile := flags.String("key-file", "", "file to write the public key to, as a JWK set")
	certificate := flags.String("certificate", "", "file with the certificate for TLS")
	key := flags.String("key", "", "file with its key")
	server := &tokens{}
	flags.StringVar(&server.issuer, "issuer", "tokens", "who issues the tokens")
	flags.StringVar(&server.user, "user", "", "who may do anything")
	flags.StringVar(&server.password, "password", "", "by this password")
	flags.StringVar(&server.identity, "identity-token", "", "or by this token")
	flags.StringVar(&server.public, "public", "", "start of the names of repositories that everybody may pull")
	flags.DurationVar(&server.lifetime, "lifetime", time.Minute, "how long a token is good")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := server.makeKey(*keyFile); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if err := write(*portFile, fmt.Sprintln(listener.Addr().(*net.TCPAddr).Port)); err != nil {
		return err
	}
	if *certificate == "" {
		return http.Serve(listener, server)
	}
	return http.ServeTLS(listener, server, *certificate, *key)
}

func (server *tokens) makeKey(file string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "tests")
	server.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, options)
	if err != nil {
		return err
	}
	public := jose.JSONWebKey{Key: private.Public(), KeyID: "tests", Algorithm: string(jose.ES256), Use: "sig"}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	if err != nil {
		return err
	}
	return write(file, string(set))
}

func (server *tokens) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	user, ok := server.login(request)
	fmt.Printf("%s scope=%q user=%q ok=%t\n", request.Method, request.FormValue("scope"), user, ok)
	if !ok {
		http.Error(writer, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	text, err := server.issue(user, request.FormValue("service"), request.FormValue("scope"))
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(map[string]any{
		"token": text, "access_token": text, "expires_in": int(server.lifetime.Seconds()),
	})
}

// login says who asks, and whether that is so. Nobody is nobody.
func (server *tokens) login(request *http.Request) (string, bool) {
	if request.Method == http.MethodPost {
		ok := request.FormValue("grant_type") == "refresh_token" && server.identity != "" &&
			request.FormValue("refresh_token") == server.identity
		return server.user, ok
	}
	user, password, given := request.BasicAuth()
	if !given {
		return "", true
	}
	return user, user == server.user && password == server.password
}

func (server *tokens) issue(user, service, scope string) (string, error) {
	var access []*token.ResourceActions
	for _, one := range strings.Fields(scope) {
		kind, rest, _ := strings.Cut(one, ":")
		last := strings.LastIndex(rest, ":")
		if last < 0 {
			continue
		}
		name, actions := rest[:last], strings.Split(rest[last+1:], ",")
		if user == "" {
			if server.public == "" || !strings.HasPrefix(name, server.public) {
				continue
			}
			actions = slices.DeleteFunc(actions, func(action string) bool { return action != "pull" })
		}
		access = append(access, &token.ResourceActions{Type: kind, Name: name, Actions: actions})
	}
	now := time.Now()
	claims := token.ClaimSet{
		Issuer: server.issuer, Subject: user, Audience: token.AudienceList{service},
		IssuedAt: now.Unix(), NotBefore: now.Add(-time.Minute).Unix(), Expiration: now.Add(server.lifetime).Unix(),
		Access: access,
	}
	return jwt.Signed(server.signer).Claims(claims).Serialize()
}

// write makes a file appear whole.
func write(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
