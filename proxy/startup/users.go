package startup

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"
)

const (
	// scramIterations is PostgreSQL's default number of iterations (SCRAM_SHA_256_DEFAULT_ITERATIONS).
	scramIterations = 4096
	// scramSalt is the length in bytes of PostgreSQL's salts (SCRAM_DEFAULT_SALT_LEN).
	scramSalt = 16
	// maxUsersFile bounds the size of a users file, to some 100,000 users.
	maxUsersFile = 16 << 20
	// maxUserErrors bounds the number of faulty lines that an error lists.
	maxUserErrors = 100
	// verifierPrefix is the start of a SCRAM verifier in PostgreSQL's form.
	verifierPrefix = mechanismSCRAM + "$"
)

// userTable is the content of a users file. A userTable is immutable, and a reload of the file creates a new one.
type userTable struct {
	credentials map[string]scram.StoredCredentials
	kinds       []hashKind // sorted
}

// hashKind is the part of a SCRAM verifier that a client can see, without the salt itself, and the number of users with
// this part. An unknown user gets one of the file's kinds. Otherwise a file with several kinds would show which users
// exist.
type hashKind struct{ iterations, salt, users int }

// ReloadUsers reads the users file again, for clients that connect afterwards. After an error the old content stays in
// use.
func (s *Handshaker) ReloadUsers() error {
	if s.method != SCRAM {
		return nil
	}
	u, err := loadUsers(s.usersFile, s.secret)
	if err != nil {
		return fmt.Errorf("users file %s: %w", s.usersFile, err)
	}
	s.users.Store(u)
	return nil
}

func loadUsers(path string, secret authSecret) (*userTable, error) {
	text, err := readFileUpTo(path, maxUsersFile)
	if err != nil {
		return nil, err
	}
	lines, err := scanUsers(text)
	if err != nil {
		return nil, err
	}
	return newUserTable(lines, secret)
}

// readFileUpTo returns the content of a file. A file of more than most bytes is an error.
func readFileUpTo(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("longer than %d bytes", most)
	}
	return text, err
}

// newUserTable returns the users of a users file, with hashes of passwords that the file has in plain text.
func newUserTable(lines []userLine, secret authSecret) (*userTable, error) {
	u := &userTable{credentials: make(map[string]scram.StoredCredentials, len(lines))}
	for _, l := range lines {
		switch {
		case l.verifier != nil:
			u.credentials[l.name] = *l.verifier
		case l.password != "":
			credentials, err := hashPassword(l.password, secret.salt(l.name, scramSalt))
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", l.number, err)
			}
			u.credentials[l.name] = credentials
		}
	}
	u.kinds = countHashKinds(u.credentials)
	return u, nil
}

func countHashKinds(credentials map[string]scram.StoredCredentials) (kinds []hashKind) {
	users := map[hashKind]int{}
	for _, c := range credentials {
		users[hashKind{iterations: c.Iters, salt: len(c.Salt)}]++
	}
	for k, n := range users {
		kinds = append(kinds, hashKind{k.iterations, k.salt, n})
	}
	slices.SortFunc(kinds, func(a, b hashKind) int {
		return cmp.Or(cmp.Compare(a.iterations, b.iterations), cmp.Compare(a.salt, b.salt))
	})
	return kinds
}

// hashKindOf returns the kind of SCRAM verifier for an unknown user. If the file gets one more user, the result changes
// for few unknown users.
func (u *userTable) hashKindOf(user string, secret authSecret) hashKind {
	chosen, all := hashKind{iterations: scramIterations, salt: scramSalt}, len(u.credentials)
	place, _ := bits.Mul64(binary.BigEndian.Uint64(secret.derive("kind", user)), uint64(all))
	for _, k := range u.kinds {
		if chosen = k; place < uint64(k.users) {
			break
		}
		place -= uint64(k.users)
	}
	return chosen
}

// hashPassword returns the SCRAM verifier of a password. A password that SASLprep refuses is used unchanged, as by
// PostgreSQL and libpq.
func hashPassword(password, salt string) (scram.StoredCredentials, error) {
	client, err := scram.SHA256.NewClient("", password, "")
	if err != nil {
		if client, err = scram.SHA256.NewClientUnprepped("", password, ""); err != nil {
			return scram.StoredCredentials{}, err
		}
	}
	return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: salt, Iters: scramIterations})
}

// findCredentials returns the SCRAM credentials of user. For an unknown user, findCredentials returns credentials that
// no password matches, with a salt that does not change.
func (u *userTable) findCredentials(user string, secret authSecret) scram.StoredCredentials {
	if c, ok := u.credentials[user]; ok {
		return c
	}
	k := u.hashKindOf(user, secret)
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: secret.salt(user, k.salt), Iters: k.iterations},
		StoredKey:  secret.derive("stored key", user),
		ServerKey:  secret.derive("server key", user),
	}
}

// userLine is one user of a users file. A user without a verifier and a password cannot log in.
type userLine struct {
	number   int
	name     string
	verifier *scram.StoredCredentials
	password string
}

// scanUsers parses a users file in the form of PgBouncer's userlist.txt. Each line has "user" "secret". A double quote
// in either is written twice. The rest of a line is ignored, and a semicolon starts a comment line. The error lists
// every faulty line, by number and never by content.
func scanUsers(text []byte) ([]userLine, error) {
	var users []userLine
	var errs []error
	seen := map[string]int{}
	bad, number := 0, 0
	for line := range bytes.Lines(text) {
		number++
		rest := strings.TrimSpace(string(line))
		if rest == "" || rest[0] == ';' {
			continue
		}
		user, err := scanUser(rest)
		if err == nil && seen[user.name] > 0 {
			err = fmt.Errorf("same user as in line %d", seen[user.name])
		}
		if err != nil {
			if bad++; bad <= maxUserErrors {
				errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			}
			continue
		}
		seen[user.name] = number
		user.number = number
		users = append(users, user)
	}
	if bad > maxUserErrors {
		errs = append(errs, fmt.Errorf("and %d more bad lines", bad-maxUserErrors))
	}
	return users, errors.Join(errs...)
}

func scanUser(line string) (userLine, error) {
	name, rest, err := scanQuoted(line)
	if err != nil {
		return userLine{}, fmt.Errorf("user name: %w", err)
	}
	if name == "" {
		return userLine{}, errors.New("user name: empty")
	}
	secret, _, err := scanQuoted(strings.TrimLeft(rest, " \t"))
	if err != nil {
		return userLine{}, fmt.Errorf("password: %w", err)
	}
	switch {
	case strings.HasPrefix(secret, verifierPrefix):
		verifier, err := parseVerifier(secret)
		return userLine{name: name, verifier: verifier}, err
	case isMD5(secret):
		return userLine{}, errors.New("password: md5 is not supported: store a SCRAM-SHA-256 verifier")
	}
	return userLine{name: name, password: secret}, nil
}

// scanQuoted parses a string in double quotes at the start of s. Two double quotes inside stand for one.
func scanQuoted(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", errors.New("want a string in double quotes")
	}
	var b strings.Builder
	for s = s[1:]; ; {
		before, after, closed := strings.Cut(s, `"`)
		if !closed {
			return "", "", errors.New("closing quote is missing")
		}
		b.WriteString(before)
		if s, closed = strings.CutPrefix(after, `"`); !closed {
			return b.String(), after, nil
		}
		b.WriteByte('"')
	}
}

// isMD5 reports whether secret is a password hash of PostgreSQL's old kind: md5 and 32 hex digits.
func isMD5(secret string) bool {
	digits, ok := strings.CutPrefix(secret, "md5")
	return ok && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

// parseVerifier parses a SCRAM verifier, SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>, the form of
// pg_authid.rolpassword.
func parseVerifier(s string) (*scram.StoredCredentials, error) {
	factors, keys, ok1 := strings.Cut(strings.TrimPrefix(s, verifierPrefix), "$")
	iterations, salt, ok2 := strings.Cut(factors, ":")
	stored, server, ok3 := strings.Cut(keys, ":")
	if !ok1 || !ok2 || !ok3 {
		return nil, errors.New("verifier: want SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey")
	}
	var v scram.StoredCredentials
	n, err := strconv.ParseInt(iterations, 10, 32)
	if err != nil || n < 1 {
		return nil, errors.New("verifier: iterations are not a positive number")
	}
	v.Iters = int(n)
	raw, err := base64.StdEncoding.DecodeString(salt)
	if err != nil || len(raw) == 0 {
		return nil, errors.New("verifier: salt is not base64")
	}
	v.Salt = string(raw)
	for _, key := range []struct {
		name, text string
		to         *[]byte
	}{{"StoredKey", stored, &v.StoredKey}, {"ServerKey", server, &v.ServerKey}} {
		raw, err := base64.StdEncoding.DecodeString(key.text)
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("verifier: %s is not 32 bytes in base64", key.name)
		}
		*key.to = raw
	}
	return &v, nil
}
