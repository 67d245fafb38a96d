-- A mix of work for the interpreter, for benches/instructions.py.
local function sieve(n)
  local composite, count = {}, 0
  for i = 2, n do
    if not composite[i] then
      count = count + 1
      for j = i * i, n, i do composite[j] = true end
    end
  end
  return count
end

local function queens(n)
  local found, columns, up, down = 0, {}, {}, {}
  local function place(row)
    if row > n then found = found + 1 return end
    for column = 1, n do
      if not columns[column] and not up[row + column] and not down[row - column + n] then
        columns[column], up[row + column], down[row - column + n] = true, true, true
        place(row + 1)
        columns[column], up[row + column], down[row - column + n] = false, false, false
      end
    end
  end
  place(1)
  return found
end

local function words(n)
  local counts, seed = {}, 42
  for _ = 1, n do
    seed = (seed * 1103515245 + 12345) % 2147483648
    local word = string.format("w%d", seed % 997)
    counts[word] = (counts[word] or 0) + 1
  end
  local list = {}
  for word in pairs(counts) do list[#list + 1] = word end
  table.sort(list)
  return table.concat(list, " "):gsub("w(%d)", "%1w")
end

local Account = {}
Account.__index = Account
function Account.new(balance) return setmetatable({ balance = balance }, Account) end
function Account:deposit(amount) self.balance = self.balance + amount return self end

for _ = 1, tonumber(arg[1]) do
  local account = Account.new(0)
  for i = 1, 200000 do account:deposit(i % 7) end
  print(sieve(100000), queens(7), #words(40000), account.balance)
end
